package front

import (
	"fmt"
	"log"
	"net/http"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// All regular expressions of a request share one budget. When it is used up no other one is tried,
// and one line is logged.
func TestRegexesShareABudget(t *testing.T) {
	const slow = `^/(?!x)(\w+\s?)*$`
	var locations []conf.Location
	for i := range 40 {
		locations = append(locations, conf.Location{Match: "~", Path: fmt.Sprintf(`^/(?!x)(\w+\s?)*%d$`, i),
			Steps: []conf.Step{conf.Return{Status: 200, Text: "by"}}})
	}
	by := conf.Location{Path: "/", Steps: []conf.Step{conf.Return{Status: 200, Text: "passed by"}}}
	path := "/" + strings.Repeat("a", 3000) + "!"
	maps := []conf.Map{{Name: "m", Source: "$uri", Default: "no", Volatile: true}}
	for i := range 40 {
		maps[0].Cases = append(maps[0].Cases, conf.Case{From: fmt.Sprintf(`~^/(?!x)(\w+\s?)*%d$`, i), To: "yes"})
	}
	if40, rewrite40 := by, by
	for i := range 40 {
		source := fmt.Sprintf(`^/(?!x)(\w+\s?)*%d$`, i)
		if40.Steps = append([]conf.Step{conf.If{Left: "$uri", Op: "~", Right: conf.Text(source),
			Then: []conf.Step{conf.Return{Status: 403}}}},
			if40.Steps...)
		rewrite40.Steps = append([]conf.Step{conf.Rewrite{Pattern: source, To: "/other"}}, rewrite40.Steps...)
	}
	subrequests := conf.Location{Path: "/", Settings: conf.Settings{AuthRequest: &conf.AuthRequest{URI: "/ask"}},
		Empty: true}
	check403 := conf.Location{Match: "=", Path: "/ask",
		Steps: []conf.Step{conf.If{Left: "$request_uri", Op: "~", Right: slow,
			Then: []conf.Step{conf.Return{Status: 403}}},
			conf.Return{Status: 204}}}
	paged := by
	paged.Steps = []conf.Step{conf.If{Left: "$uri", Op: "~", Right: slow}, conf.Return{Status: 200, Text: "by"}}
	paged.Settings.ErrorPages = []conf.ErrorPage{{Statuses: []int{500}, Status: 200, Target: "/page"}}
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
			Settings: conf.Settings{Referers: &conf.Referers{Patterns: []string{`a.b/(?!x)(\w+\s?)*$`}}},
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
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Subrequests use the budget of their request.
func TestSubrequestsShareTheBudget(t *testing.T) {
	p, err := newPattern(`^(?!x)(a+)+$`, false)
	if err != nil {
		t.Fatal(err)
	}
	x := &exchange{}
	sub := &exchange{parent: x}
	if p.match(sub, strings.Repeat("a", 100)+"b") || !sub.regexTimedOut || x.regexSteps < maxRegexSteps {
		t.Errorf("%v %d", sub.regexTimedOut, x.regexSteps)
	}
	if p.match(x, "a") || !x.regexTimedOut {
		t.Error("another pattern is matched without a budget")
	}
}

// Regular expressions without groups that package regexp matches do not allocate.
func TestSimpleRegexDoesNotAllocate(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector's pools lose some of what they are given")
	}
	p, err := newPattern(`\.(?:css|js)$`, false)
	if err != nil {
		t.Fatal(err)
	}
	x := &exchange{}
	if n := testkit.Allocs(100, func() { p.match(x, "/static/site.css") }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
