package stat

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

func TestMedianHasBoundsOfOrderStatistics(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   Interval
	}{
		{[]float64{3, 1, 2, 6, 5, 4},
			Interval{1, 3.5, 6}}, // the extremes of six values enclose the median 97 times in 100
		{[]float64{1, 2, 3, 4, 5, 6, 7}, Interval{1, 4, 7}},
		{[]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, Interval{2, 5.5, 9}},
		{[]float64{1, 2, 3}, Interval{math.Inf(-1), 2, math.Inf(1)}},
	} {
		testkit.Equal(t, Median(test.values), test.want, test.values)
	}
	if i := Median(nil); i.Known() || !math.IsNaN(i.Mid) {
		t.Errorf("no values: %v", i)
	}
}

// Intervals of one value per start contain the truth as often as claimed.
func TestRatiosOfOneValueContainTheTruth(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	const runs, slack = 4000, 0.01
	covered := 0
	for range runs {
		a, b := make(Starts, 6), make(Starts, 6)
		for i := range a {
			drift := 1 + rnd.Float64()
			a[i] = []float64{drift * 1.3 * math.Exp(0.05*rnd.NormFloat64())}
			b[i] = []float64{drift * math.Exp(0.05*rnd.NormFloat64())}
		}
		if e := Ratios(a, b); e.Contains(1.3) {
			covered++
		}
	}
	if share := float64(covered) / runs; share < Confidence-slack {
		t.Errorf("%.3f of the intervals contain the truth", share)
	}
}

func TestFindingDependsOnBothMargins(t *testing.T) {
	for _, test := range []struct {
		i    Interval
		want Finding
	}{
		{Interval{0.985, 1, 1.015}, Same},
		{Interval{0.97, 1, 1.01}, Unclear},
		{Interval{1.009, 1.05, 1.1}, Unclear},
		{Interval{0.9, 0.95, 0.991}, Unclear},
		{Interval{1.011, 1.03, 1.05}, More},
		{Interval{0.95, 0.97, 0.989}, Less},
		{Interval{1.012, 1.015, 1.018}, Same}, // beyond Margin, but too little to matter
		{Interval{1.03, 1.05, 1.1}, More},
		{Interval{0.5, 0.6, 0.97}, Less},
		{Interval{math.Inf(-1), 3, math.Inf(1)}, Unclear},
	} {
		testkit.Equal(t, test.i.Finding(), test.want, test.i)
	}
}
