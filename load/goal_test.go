package load_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
)

func TestParseGoalReadsItsOwnText(t *testing.T) {
	for text, want := range map[string][]load.Bound{
		"p99<10ms": {{Quantile: 0.99, Most: 10 * time.Millisecond}},
		"p50<=2ms": {{Quantile: 0.5, Most: 2 * time.Millisecond, Equal: true}},
		" p99.9 < 1s , mean<5ms": {{Quantile: 0.999, Most: time.Second},
			{Figure: load.Mean, Most: 5 * time.Millisecond}},
		"max<=1.5s":    {{Figure: load.Max, Most: 1500 * time.Millisecond, Equal: true}},
		"errors<0.1%":  {{Figure: load.ErrorShare, Share: 0.001}},
		"errors<0.001": {{Figure: load.ErrorShare, Share: 0.001}},
		"errors<=0":    {{Figure: load.ErrorShare, Equal: true}},
		"errors>0":     {{Figure: load.ErrorShare, Equal: true, Fails: true}},
		"p99>=10ms":    {{Quantile: 0.99, Most: 10 * time.Millisecond, Fails: true}},
		"rps>=1000,rps<2e3": {{Figure: load.Rate, PerSecond: 1000, Equal: true},
			{Figure: load.Rate, PerSecond: 2000, Equal: true, Fails: true}},
		" cpu > +3 % , rps<-5%": {{Figure: load.CPU, Share: 0.03, Change: true, Equal: true, Fails: true},
			{Figure: load.Rate, Share: -0.05, Change: true, Equal: true, Fails: true}},
		"cpu>+0%,p99<+1e1%": {{Figure: load.CPU, Change: true, Equal: true, Fails: true},
			{Quantile: 0.99, Share: 0.1, Change: true}},
	} {
		got, err := load.ParseGoal(text)
		if err != nil || len(got.Bounds) != len(want) {
			t.Errorf("%q: %+v, %v", text, got, err)
			continue
		}
		for i, b := range got.Bounds {
			if near(b.Quantile, want[i].Quantile) && near(b.Share, want[i].Share) {
				b.Quantile, b.Share = want[i].Quantile, want[i].Share
			}
			if b != want[i] {
				t.Errorf("%q: %+v, want %+v", text, b, want[i])
			}
		}
		if again, err := load.ParseGoal(got.String()); err != nil || !reflect.DeepEqual(again, got) {
			t.Errorf("%q is written as %q, which is %+v, %v", text, got, again, err)
		}
	}
}

func near(a, b float64) bool { return a-b < 1e-12 && b-a < 1e-12 }

func TestInvalidGoalsAreRejected(t *testing.T) {
	for text, want := range map[string]string{
		"":                   "want a figure, < or >",
		"p99":                "want a figure, < or >",
		"p99<10":             `limit "10": want a duration above 0`,
		"p99<-1ms":           "want a duration above 0",
		"p99<":               "want a duration above 0",
		"p0<1ms":             `figure "p0"`,
		"p100<1ms":           `figure "p100"`,
		"pInf<1ms":           `figure "pInf"`,
		"p1e1<1ms":           `figure "p1e1"`,
		"median<1ms":         `figure "median": want mean, max, errors, rps, cpu or a percentile`,
		"p99<1ms,":           "want a figure, < or >",
		"errors<0":           "want errors<=0 or errors>0, which allow no error",
		"errors<200%":        `limit "200%": want a share such as 0.1% or 0.001`,
		"errors<NaN":         "want a share",
		"errors>+1x":         "want a share",
		"cpu>3%":             "want a signed change such as +3%",
		"cpu>+3":             "want a signed change",
		"cpu>+NaN%":          "want a signed change",
		"rps<-100%":          "above -100%",
		"rps<x":              "want a number of requests/s",
		"cpu>+3%>":           "want a signed change",
		"p99<1ms,errors<1ms": `goal "errors<1ms": limit "1ms"`,
	} {
		if g, err := load.ParseGoal(text); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), "load: goal ") {
			t.Errorf("%q: %+v, %v; want an error with %q", text, g, err, want)
		}
	}
}

func TestGoalRoundTripsThroughJSON(t *testing.T) {
	for _, text := range []string{"", "p99.9<1.5ms,errors<=0.25%"} {
		b, _ := json.Marshal(text)
		var g load.Goal
		testkit.Must(t, json.Unmarshal(b, &g))
		if back, err := json.Marshal(g); err != nil || string(back) != strings.ReplaceAll(string(b), "<", `\u003c`) &&
			string(back) != string(b) {
			t.Errorf("%s becomes %s, %v", b, back, err)
		}
	}
}
