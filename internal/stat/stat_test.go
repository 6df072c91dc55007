package stat

import (
	"math"
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
