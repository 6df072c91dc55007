package core

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/pcre"
	"github.com/tarehq/tare/internal/testkit"
)

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
		got := c.Text("text", conf.Text(s))
		err := c.failure(nil)
		if err != nil {
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
	if p.Match(sub, strings.Repeat("a", 100)+"b") || !sub.RegexTimedOut || x.Regexes.Used < pcre.MatchLimit {
		t.Errorf("%v %d", sub.RegexTimedOut, x.Regexes.Used)
	}
	x.Regexes.Used = pcre.BudgetLimit
	if p.Match(x, "a") || !x.RegexTimedOut {
		t.Error("another pattern is matched without a budget")
	}
}

// Regular expressions without groups do not allocate, except for the first match of a request.
func TestSimpleRegexDoesNotAllocate(t *testing.T) {
	testkit.NoRace(t, "pools lose some of what they are given")
	p := testkit.Value(newPattern(`\.(?:css|js)$`, false))(t)
	x := &Exchange{}
	if n := testkit.Allocs(100, func() { p.Match(x, "/static/site.css") }); n > 0 {
		t.Errorf("%v allocations", n)
	}
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
