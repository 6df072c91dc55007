package front_test

import (
	"fmt"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// A regular expression that exceeds the limit of steps fails the request, as do regular expressions
// that exceed the request's limit together. Then no other one is tried, and one line is logged.
func TestRegexesShareABudget(t *testing.T) {
	testkit.Long(t, "it waits for budgets")
	const slow = `^/(?=(\w+\s?)*$)`
	var locations []conf.Location
	for i := range 40 {
		locations = append(locations, conf.Location{Match: "~", Path: fmt.Sprintf(`^/(?=(\w+\s?)*%d$)`, i),
			Steps: []conf.Step{conf.Return{Status: 200, Text: "by"}}})
	}
	by := conf.Location{Path: "/", Steps: []conf.Step{conf.Return{Status: 200, Text: "passed by"}}}
	path := "/" + strings.Repeat("a", 3000) + "!"
	maps := []conf.Map{{Name: "m", Source: "$uri", Default: "no", Volatile: true}}
	for i := range 40 {
		maps[0].Cases = append(maps[0].Cases, conf.Case{From: fmt.Sprintf(`~^/(?=(\w+\s?)*%d$)`, i), To: "yes"})
	}
	if40, rewrite40 := by, by
	for i := range 40 {
		source := fmt.Sprintf(`^/(?=(\w+\s?)*%d$)`, i)
		if40.Steps = append([]conf.Step{conf.If{Left: "$uri", Op: "~", Right: conf.Text(source),
			Then: []conf.Step{conf.Return{Status: 403}}}},
			if40.Steps...)
		rewrite40.Steps = append([]conf.Step{conf.Rewrite{Pattern: source, To: "/other"}}, rewrite40.Steps...)
	}
	subrequests := conf.Location{Path: "/", Settings: &conf.Settings{AuthRequest: &conf.AuthRequest{URI: "/ask"}},
		Empty: true}
	check403 := conf.Location{Match: "=", Path: "/ask",
		Steps: []conf.Step{conf.If{Left: "$request_uri", Op: "~", Right: slow,
			Then: []conf.Step{conf.Return{Status: 403}}},
			conf.Return{Status: 204}}}
	paged := by
	paged.Steps = []conf.Step{conf.If{Left: "$uri", Op: "~", Right: slow}, conf.Return{Status: 200, Text: "by"}}
	paged.Settings = &conf.Settings{ErrorPages: []conf.ErrorPage{{Statuses: []int{500}, Status: 200, Target: "/page"}}}
	page := conf.Location{Match: "=", Path: "/page", Steps: []conf.Step{conf.Return{Status: 200, Text: "page"}}}
	for name, config := range map[string]conf.Config{
		"locations": {Hosts: []conf.Host{{Locations: append(locations, by)}}},
		"map": {Maps: maps,
			Hosts: []conf.Host{{Locations: []conf.Location{{Path: "/",
				Steps: []conf.Step{conf.Return{Status: 200, Text: "$m$m"}}}}}}},
		"if":      {Hosts: []conf.Host{{Locations: []conf.Location{if40}}}},
		"rewrite": {Hosts: []conf.Host{{Locations: []conf.Location{rewrite40}}}},
		"request": {Hosts: []conf.Host{{Locations: []conf.Location{subrequests, check403}}}},
		"page":    {Hosts: []conf.Host{{Locations: []conf.Location{paged, page}}}},
		"referers": {Hosts: []conf.Host{{Locations: []conf.Location{{Path: "/",
			Settings: &conf.Settings{Referers: &conf.Referers{Patterns: []string{`a.b/(?=(\w+\s?)*$)`}}},
			Steps: []conf.Step{conf.If{Left: "$invalid_referer",
				Then: []conf.Step{conf.Return{Status: 200, Text: "by"}}},
				conf.Return{Status: 200, Text: "by"}}}}}}},
	} {
		var lines strings.Builder
		h, err := front.New(config, front.LogErrors(log.New(&lines, "", 0)))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got := get(t, h, path, "Referer", "http://a.b"+path)
		if got.status != http.StatusInternalServerError {
			t.Errorf("%s: %d %q", name, got.status, got.body)
		}
		if n := strings.Count(lines.String(), "needs too many steps"); n != 1 {
			t.Errorf("%s: %d lines: %s", name, n, lines.String())
		}
		if name == "locations" || name == "if" || name == "rewrite" {
			got = get(t, h, "/"+strings.Repeat("a", 17)+"!")
			if n := strings.Count(lines.String(), "need too many steps together"); n != 1 || got.status != 500 {
				t.Errorf("%s, together: %d, %d lines: %s", name, got.status, n, lines.String())
			}
		}
		testkit.Check(t, h.Close())
	}
}

// A map whose regular expression exceeds its steps does not grant access, whatever uses its value:
// its default might.
func TestRegexTimeoutInMapDeniesAccess(t *testing.T) {
	testkit.Long(t, "it waits for budgets")
	dir := t.TempDir()
	for name, text := range map[string]string{"public/x": "public", "passwords": "a:{PLAIN}b"} {
		must(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700))
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
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
		"password":  {Settings: password},
		"limit":     {Settings: limited},
		"picture":   {Settings: password, Empty: true},
		"cache key": {Proxy: &conf.Proxy{To: "127.0.0.1:1", Cache: &conf.ProxyCache{Zone: "c", Key: "$public"}}},
		"root":      {Settings: files("/$public")},
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
			Caches:   []conf.Cache{{Name: "c"}},
			Requests: []conf.Zone{{Name: "z", Key: "$public", Rate: 1000, Bytes: 1 << 20}},
			Hosts:    []conf.Host{{Locations: []conf.Location{l, {Path: "/other/", Steps: say}}}},
		})
		if got := get(t, h, path+"?x="+strings.Repeat("a", 60)+"!"); got.status != http.StatusInternalServerError ||
			strings.Contains(got.body, "said") || strings.Count(got.body, "<html>") != 1 {
			t.Errorf("%s: %d %q", name, got.status, got.body)
		}
	}
}
