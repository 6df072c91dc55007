package front

import (
	"fmt"
	"log"
	"net/http"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/pcre"
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
		h, err := New(config, LogErrors(log.New(&lines, "", 0)))
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
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Subrequests use the budget of their request.
func TestSubrequestsShareTheBudget(t *testing.T) {
	p, err := newPattern(`^(?=(a+)+$)`, false)
	testkit.Must(t, err)
	x := &exchange{}
	sub := &exchange{parent: x}
	if p.match(sub, strings.Repeat("a", 100)+"b") || !sub.regexTimedOut || x.regexes.Used < pcre.MatchLimit {
		t.Errorf("%v %d", sub.regexTimedOut, x.regexes.Used)
	}
	x.regexes.Used = pcre.BudgetLimit
	if p.match(x, "a") || !x.regexTimedOut {
		t.Error("another pattern is matched without a budget")
	}
}

// Regular expressions without groups do not allocate, except for the first match of a request.
func TestSimpleRegexDoesNotAllocate(t *testing.T) {
	testkit.NoRace(t, "pools lose some of what they are given")
	p, err := newPattern(`\.(?:css|js)$`, false)
	testkit.Must(t, err)
	x := &exchange{}
	if n := testkit.Allocs(100, func() { p.match(x, "/static/site.css") }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
