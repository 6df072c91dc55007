package front

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/pcre"
	"github.com/tarehq/tare/internal/testkit"
)

func emptyCompiler() *compiler {
	c := newCompiler(&conf.Config{}, &options{}, newState(nil), nil)
	c.slots["mine"], c.plan.slots = 0, 1
	return c
}

// A text is either rejected, or evaluates to what replacing each variable by hand gives.
func FuzzText(f *testing.F) {
	for _, s := range []string{"a$uri", "${uri}$1", "$", "${", "$uri}", "$$", "x${mine}y$args?"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c := emptyCompiler()
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
		x := newExchange(&plan{slots: len(c.slots), options: &options{}, state: newState(nil)}, httptest.NewRecorder(),
			httptest.NewRequest(http.MethodGet, "/", nil))
		h := &host{}
		h.defaults.rules = &rules{settings: &conf.Settings{}}
		x.host, x.loc, x.path = h, &h.defaults, "/"
		_ = got.eval(x)
	})
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

// The plan collects only what the variables of its texts need, those in maps included.
func TestPlanCollectsWhatVariablesNeed(t *testing.T) {
	get := func(*exchange) string { return "" }
	all := []module{{
		variables: func(slot) map[string]knownVariable {
			return map[string]knownVariable{"counted": {get: get, needs: needsCounts}}
		},
		families: []variableFamily{{"any_", func(string) knownVariable {
			return knownVariable{get: get, needs: needsAnyResponse}
		}}},
	}}
	for text, want := range map[conf.Text]needs{
		"$uri": 0, "$request_time": needsStartTime, "$connection_time": needsConnection,
		"$counted": needsCounts, "$any_a": needsAnyResponse, "$mapped": needsStartTime,
	} {
		config := &conf.Config{Hosts: []conf.Host{{Steps: []conf.Step{conf.Return{Status: 200, Text: text}}}}}
		if text == "$mapped" {
			config.Maps = []conf.Map{{Name: "mapped", Source: "$request_time"}}
		}
		p, err := compile(config, &options{}, newState(all), all)
		testkit.Must(t, err)
		if p.needs != want {
			t.Errorf("%s: needs %b, want %b", text, p.needs, want)
		}
		p.retire()
	}
}
