package core

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/fetch"
	"github.com/tarehq/tare/internal/pcre"
	"github.com/tarehq/tare/internal/testkit"
)

// naive finds a location by comparing all of them.
func naive(all []conf.Location, path string) (found *conf.Location, slash bool) {
	var best *conf.Location
	for i := range all {
		l := &all[i]
		switch {
		case l.Match == "=" && l.Path == path:
			return l, false
		case l.Match != "=" && strings.HasPrefix(path, l.Path) && (best == nil ||
			len(l.Path) > len(best.Path)):
			best = l
		}
	}
	if best == nil || best.Path != path {
		for i := range all {
			if l := &all[i]; l.Proxy != nil && l.Path == path+"/" {
				return l, true
			}
		}
	}
	return best, false
}

// FuzzLocations compares the search with one that compares all locations. Its input are the paths
// of locations, one per line, whose first byte is the kind, and the path of a request.
func FuzzLocations(f *testing.F) {
	f.Add("p/\np/a\np/ab\np/a/b/\n=/a\n", "/a/b/c")
	f.Add("p/\n^/i/\np/i\ns/p/\n=/p/", "/p")
	f.Add("0/", "0")
	f.Add("p/", "")
	f.Add("p\np/x\ns/x/", "/x")
	f.Fuzz(func(t *testing.T, text, path string) {
		var all []conf.Location
		seen := make(map[string]bool)
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			if line == "" || len(all) > 50 {
				continue
			}
			l := conf.Location{Path: line[1:]}
			switch line[0] {
			case '=':
				l.Match = "="
			case '^':
				l.Match = "^~"
			case 's':
				l.Proxy = &conf.Proxy{To: "app"}
			}
			key := fmt.Sprint(l.Match == "=", l.Path)
			if seen[key] {
				continue
			}
			seen[key] = true
			all = append(all, l)
		}
		c := emptyCompiler()
		var found locations
		prefixes := make(map[string]*Location)
		for i := range all {
			loc := new(Location)
			c.addLocation(&host{}, &found, loc, &all[i], prefixes)
		}
		found.sort()
		nothing := &Location{}
		got := nothing
		verdict := found.find(&Exchange{}, path, &got)
		want, slash := naive(all, path)
		if (want == nil) != (got == nothing) || want != nil && want.Path != got.Path ||
			slash != (verdict == searchRedirect) {
			t.Errorf("%q in %q: %q %v, want %+v %v", path, text, got.Path, verdict, want, slash)
		}
	})
}

// A thousand locations are found as fast as a few, because the search visits few of them.
func TestLocationSearchIsFast(t *testing.T) {
	var all []conf.Location
	for i := range 1000 {
		all = append(all, conf.Location{Path: fmt.Sprintf("/%03d/", i),
			Steps: []conf.Step{conf.Return{Status: 200, Text: conf.Text(fmt.Sprint(i))}}})
	}
	h := &host{}
	emptyCompiler().locations(h, &h.locations, all, nil)
	for i := range 1000 {
		var got *Location
		h.locations.find(&Exchange{}, fmt.Sprintf("/%03d/x", i), &got)
		if got == nil || got.Path != all[i].Path {
			t.Fatalf("%d: %+v", i, got)
		}
	}
	p := h.locations.prefixes
	for i := range p {
		if p[i].above >= i {
			t.Fatalf("%d is above %d", p[i].above, i)
		}
	}
}

func emptyCompiler() *Compiler {
	c := NewCompiler(&conf.Config{}, &Options{}, NewState(nil), nil)
	c.Slots["mine"], c.Plan.slots = 0, 1
	return c
}

// A text is either rejected, or evaluates to what replacing each variable by hand gives.
func FuzzText(f *testing.F) {
	for _, s := range []string{"a$uri", "${uri}$1", "$", "${", "$uri}", "$$", "x${mine}y$args?"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c := emptyCompiler()
		var got Text
		if err := catch(func() { got = c.Text("text", conf.Text(s)) }); err != nil {
			testkit.Contains(t, s, "$", err)
			return
		}
		all := got.Literal
		for _, p := range got.Parts {
			all += p.Literal
			if p.value == nil && p.Literal == "" {
				t.Errorf("%q: an empty part", s)
			}
		}
		if !strings.Contains(s, "$") && all != s || len(all) > len(s) {
			t.Errorf("%q: %q", s, all)
		}
		x := NewExchange(&Plan{slots: len(c.Slots), Options: &Options{}, State: NewState(nil)}, httptest.NewRecorder(),
			httptest.NewRequest(http.MethodGet, "/", nil))
		h := &host{}
		h.defaults.Rules = &Rules{Settings: &conf.Settings{}}
		x.Host, x.Loc, x.Path = h, &h.defaults, "/"
		_ = got.Eval(x)
	})
}

// Subrequests use the budget of their request.
func TestSubrequestsShareTheBudget(t *testing.T) {
	p := testkit.Value(newPattern(`^(?=(a+)+$)`, false))(t)
	x := &Exchange{}
	sub := &Exchange{Parent: x}
	if p.Match(sub, strings.Repeat("a", 100)+"b") || !sub.RegexTimedOut || x.Regexes().Used < pcre.MatchLimit {
		t.Errorf("%v %d", sub.RegexTimedOut, x.Regexes().Used)
	}
	x.Regexes().Used = pcre.BudgetLimit
	if p.Match(x, "a") || !x.RegexTimedOut {
		t.Error("another pattern is matched without a budget")
	}
}

// Regular expressions without groups do not allocate, except for the first match of a request.
func TestSimpleRegexDoesNotAllocate(t *testing.T) {
	testkit.NoRace(t, "pools lose some of what they are given")
	p := testkit.Value(newPattern(`\.(?:css|js)$`, false))(t)
	x := &Exchange{}
	testkit.Equal(t, testkit.Allocs(100, func() { p.Match(x, "/static/site.css") }), 0, "allocations")
}

// The plan collects only what the variables of its texts need, those in maps included.
func TestPlanCollectsWhatVariablesNeed(t *testing.T) {
	get := func(*Exchange) string { return "" }
	all := []Module{{
		Variables: func(Slot) map[string]KnownVariable {
			return map[string]KnownVariable{"counted": {Get: get, Needs: NeedsCounts}}
		},
		Families: []VariableFamily{{"any_", func(string) Variable { return get }, NeedsAnyResponse}},
	}}
	for text, want := range map[conf.Text]needs{
		"$uri": 0, "$request_time": NeedsStartTime, "$connection_time": needsConnection,
		"$counted": NeedsCounts, "$any_a": NeedsAnyResponse, "$mapped": NeedsStartTime,
	} {
		config := &conf.Config{Hosts: []conf.Host{{Steps: []conf.Step{conf.Return{Status: 200, Text: text}}}}}
		if text == "$mapped" {
			config.Maps = []conf.Map{{Name: "mapped", Source: "$request_time"}}
		}
		p := testkit.Value(Compile(config, &Options{}, NewState(all), all))(t)
		testkit.Equal(t, p.Needs, want, text, "needs")
		p.Retire()
	}
}

// After an internal redirect an upstream request that has failed may still read the body.
func TestReceivedBodyIsNotLimitedAgain(t *testing.T) {
	r := httptest.NewRequest("POST", "/", strings.NewReader("body"))
	b := &limitedBody{ReadCloser: r.Body}
	x := &Exchange{Request: r, Body: b, Received: fetch.NewBody("body"), Loc: &Location{Rules: &Rules{MaxBody: 4}}}
	testkit.Equal(t, x.limitBody(), Proceed)
	testkit.Equal(t, b.ReadCloser, r.Body)
}
