package lab

import (
	"math"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
)

// The fixed rate is a share of the slowest contender's rate. Contenders that are far slower than
// the control do not count.
func TestFixedRateIsShareOfSlowestContender(t *testing.T) {
	of := func(rates map[string]float64) (all []*analyze.Row) {
		for _, name := range []string{"control", "a", "b"} {
			if v, ok := rates[name]; ok { // of the kinds only that of the control matters
				e := sample.Entrant{Name: name, Kind: sample.Kind(name)}
				all = append(all, &analyze.Row{Entrant: &e, PerSecond: stat.Interval{Mid: v}})
			}
		}
		return all
	}
	for _, test := range []struct {
		rates   map[string]float64
		share   float64
		want    float64
		slowest string
		left    string
	}{
		{map[string]float64{"control": 50_000, "a": 24_710}, 0.5, 12_000, "a", ""},
		{map[string]float64{"control": 50_000, "a": 90_000}, 0.5, 25_000, "control", ""},
		{map[string]float64{"control": 50_000, "a": 5_000, "b": 4_999}, 0.5, 2_500, "a", "b"},
		{map[string]float64{"control": 50_000, "a": 300, "b": 20}, 0.9, 45_000, "control", "a b"},
		{map[string]float64{"control": 7}, 0.5, 3.5, "control", ""},
		{map[string]float64{}, 0.5, 0, "", ""},
	} {
		rate, slowest, left := fixedRate(of(test.rates), test.share)
		var names []string
		for _, row := range left {
			names = append(names, row.Name)
		}
		if math.Abs(rate-test.want) > 1e-9*test.want || (slowest == nil) != (test.slowest == "") ||
			slowest != nil && slowest.Name != test.slowest || strings.Join(names, " ") != test.left {
			t.Errorf("%v: %v, the slowest is %+v, left are %v; want %+v", test.rates, rate, slowest, names, test)
		}
	}
}

func TestParseRateParsesSharesAndRates(t *testing.T) {
	for text, want := range map[string]Rate{
		"off": {}, "50%": {Share: 0.5}, "2.5%": {Share: 0.025}, "2000": {PerSecond: 2000},
	} {
		if got, err := ParseRate(text); got != want || err != nil {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "fast", "0", "-5", "100%", "0%", "%", "NaN", "Inf", "1e9"} {
		if got, err := ParseRate(text); err == nil || !strings.Contains(err.Error(), "want a share such as 50%") {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
}
