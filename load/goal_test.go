package load_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

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
		"":                   "want a figure, < or <=",
		"p99":                "want a figure, < or <=",
		"p99>1ms":            "want a figure, < or <=",
		"p99<10":             `limit "10": want a duration above 0`,
		"p99<-1ms":           "want a duration above 0",
		"p99<":               "want a duration above 0",
		"p0<1ms":             `figure "p0"`,
		"p100<1ms":           `figure "p100"`,
		"pInf<1ms":           `figure "pInf"`,
		"p1e1<1ms":           `figure "p1e1"`,
		"median<1ms":         `figure "median": want mean, max, errors or a percentile`,
		"p99<1ms,":           "want a figure, < or <=",
		"errors<0":           "want errors<=0, which allows no error",
		"errors<200%":        `limit "200%": want a share such as 0.1% or 0.001`,
		"errors<NaN":         "want a share",
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
		if err := json.Unmarshal(b, &g); err != nil {
			t.Fatal(err)
		}
		if back, err := json.Marshal(g); err != nil || string(back) != strings.ReplaceAll(string(b), "<", `\u003c`) &&
			string(back) != string(b) {
			t.Errorf("%s becomes %s, %v", b, back, err)
		}
	}
}
