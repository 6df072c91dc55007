package front

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

func newCompiler() *compiler {
	c := &compiler{
		config: &conf.Config{}, options: &options{}, state: newState(), slots: map[string]int{"mine": 0},
		modules: modules(), core: coreVariables("tare"), maps: make(map[string]*mapping),
		patterns: make(map[patternKey]*pattern), types: make(map[typesKey]*mediaTypes), shares: newShares(),
		plan: new(plan),
	}
	c.plan.slots = 1
	return c
}

// A text is either rejected, or evaluates to what replacing each variable by hand gives.
func FuzzText(f *testing.F) {
	for _, s := range []string{"a$uri", "${uri}$1", "$", "${", "$uri}", "$$", "x${mine}y$args?"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c := newCompiler()
		got, err := c.text(conf.Text(s))
		if err != nil {
			if !strings.Contains(s, "$") {
				t.Errorf("%q: %v", s, err)
			}
			return
		}
		all := got.literal
		for _, p := range got.parts {
			all += p.literal
			if p.value == nil && p.literal == "" {
				t.Errorf("%q: an empty part", s)
			}
		}
		if !strings.Contains(s, "$") && all != s || len(all) > len(s) {
			t.Errorf("%q: %q", s, all)
		}
		x := newExchange(&plan{slots: len(c.slots), options: &options{}, state: newState()}, httptest.NewRecorder(),
			httptest.NewRequest(http.MethodGet, "/", nil))
		h := &host{}
		h.defaults.files, h.defaults.rules = &fileSet{}, &rules{settings: &conf.Settings{}}
		x.host, x.loc, x.path = h, &h.defaults, "/"
		_ = got.eval(x)
	})
}

// A regular expression that takes too many steps is soon an error.
func TestPatternStepsAreBounded(t *testing.T) {
	h := newFront(t, conf.Config{Hosts: []conf.Host{{Locations: []conf.Location{
		{Path: "/", Steps: []conf.Step{conf.Return{Status: 200, Text: "passed by"}}},
		{Match: "~", Path: `^/(?=(\w+\s?)*$)`, Steps: []conf.Step{conf.Return{Status: 403}}},
	}}}})
	if got := get(t, h, "/"+strings.Repeat("a", 60)+"!"); got.status != http.StatusInternalServerError {
		t.Errorf("%d %q", got.status, got.body)
	}
	if got := get(t, h, "/abc"); got.status != http.StatusForbidden {
		t.Errorf("%d %q", got.status, got.body)
	}
}

// A map whose regular expression exceeds its steps does not grant access, whatever uses its value:
// its default might.
func TestRegexTimeoutInMapDeniesAccess(t *testing.T) {
	testkit.Long(t, "it waits for budgets")
	dir := t.TempDir()
	for name, text := range map[string]string{"public/x": "public", "passwords": "a:{PLAIN}b"} {
		testkit.Must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	files := func(root string) *conf.Settings {
		return &conf.Settings{Files: conf.Files{Root: conf.Text(dir + root)}}
	}
	password := files("/public")
	password.Password = &conf.Password{Realm: "$off", File: conf.Text(dir + "/passwords")}
	limited := files("/public")
	limited.Requests = []conf.RequestLimit{{Zone: "z"}}
	say := []conf.Step{conf.Return{Status: 200, Text: "said"}}
	for name, l := range map[string]conf.Location{
		"return":   {Steps: []conf.Step{conf.Return{Status: 200, Text: "$public"}}},
		"redirect": {Steps: []conf.Step{conf.Return{Status: 302, Text: "/$public"}}},
		"rewrite":  {Steps: []conf.Step{conf.Rewrite{Pattern: "^", To: "/other/$public", Flag: "redirect"}}},
		"inner":    {Steps: []conf.Step{conf.Rewrite{Pattern: "^", To: "/other/$public", Flag: "last"}}},
		"if":       {Steps: []conf.Step{conf.If{Left: "$public", Op: "!=", Right: "secret", Then: say}}},
		"not": {Steps: []conf.Step{conf.If{Left: "$arg_x", Op: "!~", Right: `^(?=(\w+\s?)*$)`,
			Then: []conf.Step{conf.Return{Status: 403}}}}},
		"set": {Steps: []conf.Step{conf.If{Left: "1", Then: []conf.Step{conf.Set{Name: "a", Value: "$public"},
			conf.Return{Status: 204}}}}},
		"password": {Settings: password},
		"limit":    {Settings: limited},
		"picture":  {Settings: password, Empty: true},
		"root":     {Settings: files("/$public")},
		"index": {Path: "/public/",
			Settings: &conf.Settings{Files: conf.Files{Root: conf.Text(dir), Index: []conf.Text{"$public", "/x"}}}},
		"tries": {TryFiles: []conf.Text{"/none$public", "/x"}, Settings: files("/public")},
		"last":  {TryFiles: []conf.Text{"/none", "/$public"}, Settings: files("/public")},
	} {
		path := "/x"
		if l.Path != "" {
			path = l.Path
		}
		l.Path = "/"
		pattern := []conf.Case{{From: `~^(?=(\w+\s?)*$)`, To: "secret"}}
		h := newFront(t, conf.Config{
			Maps: []conf.Map{{Name: "public", Source: "$arg_x", Default: "public", Cases: pattern},
				{Name: "off", Source: "$arg_x", Default: "off", Cases: pattern}},
			Requests: []conf.Zone{{Name: "z", Key: "$public", Rate: 1000, Bytes: 1 << 20}},
			Hosts:    []conf.Host{{Locations: []conf.Location{l, {Path: "/other/", Steps: say}}}},
		})
		if got := get(t, h, path+"?x="+strings.Repeat("a", 60)+"!"); got.status != http.StatusInternalServerError ||
			strings.Contains(got.body, "said") || strings.Count(got.body, "<html>") != 1 {
			t.Errorf("%s: %d %q", name, got.status, got.body)
		}
	}
}
