package stat

import (
	"fmt"
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

func near(a, b float64) bool { return a == b || math.Abs(a-b) < 1e-6 }

// Disturbances of both values of a pair do not change their ratio.
func TestDisturbancesOfBothCancelOut(t *testing.T) {
	var a, b Starts
	for s := range 5 {
		a, b = append(a, nil), append(b, nil)
		for r := range 4 {
			disturbed := float64(1 + s + r*r)
			a[s], b[s] = append(a[s], 3*disturbed), append(b[s], 2*disturbed)
		}
	}
	a[0][1], b[1][2], b[2][0] = math.NaN(), math.NaN(), 0
	a, b = append(a, nil, []float64{math.NaN()}), append(b, nil, []float64{1}) // starts without a value
	e := Ratios(a, b)
	if !near(e.Lo, 1.5) || !near(e.Mid, 1.5) || !near(e.Hi, 1.5) || !near(e.Slices, 0) || !near(e.Starts, 0) {
		t.Errorf("got %+v", e)
	}
	testkit.Equal(t, e.SliceCount, 17, "slices")
}

// With one value per start the interval is Student's: the quantile for four degrees of freedom is
// 2.776445.
func TestIntervalOfOneValuePerStartIsStudents(t *testing.T) {
	values := Starts{{8}, {9}, {10}, {11}, {12}}
	half := 2.776445 * math.Sqrt(2.5/5)
	want := Estimate{Interval: Interval{10 - half, 10, 10 + half}, Starts: math.Sqrt(2.5)}
	if e := estimate(values); !near(e.Lo, want.Lo) || !near(e.Mid, want.Mid) || !near(e.Hi, want.Hi) ||
		e.Slices != 0 || !near(e.Starts, want.Starts) || e.SliceCount != 5 {
		t.Errorf("got %+v, want %+v", e, want)
	}
	b := Starts{{1}, {1}, {1}, {1}, {1}}
	a := Starts{{math.Exp(0.08)}, {math.Exp(0.09)}, {math.Exp(0.1)}, {math.Exp(0.11)}, {math.Exp(0.12)}}
	half /= 100
	if e := Ratios(a, b); !near(e.Lo, math.Exp(0.1-half)) || !near(e.Mid, math.Exp(0.1)) ||
		!near(e.Hi, math.Exp(0.1+half)) || !near(e.Starts, math.Sqrt(2.5)/100) {
		t.Errorf("got %+v", e)
	}
}

// Outliers within a start do not change the estimate.
func TestEstimateIgnoresOutliers(t *testing.T) {
	e := estimate(Starts{{2, 1, 3, 900}, {5, 3, -800, 4}, {4, 4}, {5}, {6}}) // 2.5, 3.5, 4, 5, 6
	half := 2.776445 * math.Sqrt((1.7*1.7+0.7*0.7+0.2*0.2+0.8*0.8+1.8*1.8)/4/5)
	if !near(e.Mid, 4.2) || !near(e.Lo, 4.2-half) || !near(e.Hi, 4.2+half) || e.SliceCount != 12 {
		t.Errorf("got %+v", e)
	}
}

func TestTooFewStartsHaveNoBounds(t *testing.T) {
	ones := Starts{{1, 1}, {1, 1}, {1, 1}, {1, 1}}
	for n := range ones {
		if e := Ratios(ones[:n], ones[:n]); e.Known() || !math.IsInf(e.Lo, -1) || !math.IsInf(e.Hi, 1) ||
			math.IsNaN(e.Mid) != (n == 0) {
			t.Errorf("%d starts: got %+v", n, e)
		}
	}
}

func TestMidmeanIsTheMeanOfTheMiddleHalf(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   float64
	}{
		{[]float64{3}, 3},
		{[]float64{5, 3}, 4},
		{[]float64{99, 3, -50}, (3 + 0.25*99 - 0.25*50) / 1.5},
		{[]float64{4, 1, 99, 3}, 3.5},
		{[]float64{99, -7, 3, 4, 6}, (3*0.75 + 4 + 6*0.75) / 2.5},
		{[]float64{8, 7, 6, 5, 4, 3, 2, 1}, 4.5},
	} {
		if got := midmean(test.values); !near(got, test.want) {
			t.Errorf("%v: got %v, want %v", test.values, got, test.want)
		}
	}
	// The midmeans of two of three values are those two's means.
	if got, want := midmeanVariance([]float64{1, 2, 6}), ((1.5*1.5+0.5*0.5+1)/2)*4/3; !near(got, want) {
		t.Errorf("variance %v, want %v", got, want)
	}
}

// The correction removes what a probe explains. A value without a probe stays.
func TestCorrectionRemovesWhatTheProbeExplains(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var a, b, probeA, probeB Starts
	for range 5 {
		var p, q, x, y []float64
		for r := range 20 {
			x, y = append(x, math.Exp(0.2*random.NormFloat64())), append(y, math.Exp(0.2*random.NormFloat64()))
			p, q = append(p, 1.1*x[r]), append(q, y[r])
		}
		p[7] *= 5
		a, b, probeA, probeB = append(a, p), append(b, q), append(probeA, x), append(probeB, y)
	}
	if raw := Ratios(a, b); raw.Hi-raw.Lo < 0.1 {
		t.Errorf("uncorrected: %+v", raw)
	}
	e := Ratios(Corrected(a, probeA, probeB), b)
	if math.Abs(e.Mid-1.1) > 1e-3 || e.Hi-e.Lo > 1e-3 {
		t.Errorf("corrected: %+v", e)
	}
	none := Starts{{0, 1, math.NaN(), 1, 1}}
	got := Corrected(Starts{{2, 2, 2, 2, 2}}, none, Starts{{0, 0, 1, math.NaN(), 0.5}})
	testkit.Equal(t, fmt.Sprint(got), "[[2 2 2 2 1]]")
}
