package wrk

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/tarehq/tare/load"
)

// The expectations are computed by wrk 4.2.0's stats.c, compiled, from the same samples.
func TestStatisticsMatchWrk(t *testing.T) {
	for _, c := range []struct {
		d           distribution
		count       int64
		mean, stdev float64
		within      string
		percentiles [4]int64
	}{
		// 201 adds 101; 350 adds 250 and 150; 1234 adds 1134, 1034 and so on to 134; 200 adds none,
		// since 100 is not above the interval.
		{distribution{[]bar{{50, 10}, {90, 5}, {150, 2}, {200, 1}, {201, 1}, {350, 1}, {1234, 1}}, 100}, 35, 306,
			350.445683, "82.86", [4]int64{150, 434, 934, 1234}},
		{distribution{[]bar{{849, 1}, {850, 3}}, 0}, 4, 849.75, 0.5, "75.00", [4]int64{850, 850, 850, 850}},
		{distribution{[]bar{{900, 990}, {1100, 8}, {9000, 1}, {1500000, 1}}, 1000}, 2505, 449777.56487, 497343.261485,
			"77.92", [4]int64{248000, 874000, 1250000, 1475000}},
		{distribution{}, 0, 0, 0, "-nan", [4]int64{}},
		{distribution{[]bar{{7, 1}}, 0}, 1, 7, 0, "100.00", [4]int64{7, 7, 7, 7}},
	} {
		mean := c.d.mean()
		stdev := c.d.stdev(mean)
		if c.d.count() != c.count || math.Abs(mean-c.mean) > 1e-5 || math.Abs(stdev-c.stdev) > 1e-5 {
			t.Errorf("%v: got %d samples, %v ± %v, want %d, %v ± %v", c.d, c.d.count(), mean, stdev, c.count, c.mean,
				c.stdev)
		}
		if got := percent(c.d.within(mean, stdev)); got != c.within {
			t.Errorf("%v: got %s%% within a standard deviation, want %s", c.d, got, c.within)
		}
		for i, p := range []float64{50, 75, 90, 99} {
			if got := c.d.percentile(p); got != c.percentiles[i] {
				t.Errorf("%v: got %d at %v%%, want %d", c.d, got, p, c.percentiles[i])
			}
		}
	}
}

// The formulas give the same results as phantoms stored as samples.
func TestPhantomFormulasMatchStoredPhantoms(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 5 {
		d := distribution{interval: 1 + rnd.Int64N(50)}
		var all []int64
		for value := int64(0); len(d.bars) < 20; value += 1 + rnd.Int64N(60) {
			b := bar{value, 1 + rnd.Int64N(3)}
			d.bars = append(d.bars, b)
			for range b.count {
				all = append(all, value)
				for m := value - d.interval; value >= 2*d.interval && m > d.interval; m -= d.interval {
					all = append(all, m)
				}
			}
		}
		slices.Sort(all)
		plain := distribution{}
		for _, value := range all {
			plain.bars = append(plain.bars, bar{value, 1})
		}
		mean := plain.mean()
		same := d.count() == int64(len(all)) && math.Abs(d.mean()-mean) < 1e-9*mean &&
			math.Abs(d.stdev(mean)-plain.stdev(mean)) < 1e-9*mean
		for x := int64(-3); x <= d.max()+1; x++ {
			same = same && d.upTo(x) == plain.upTo(x)
		}
		for p := range 100 {
			same = same && d.percentile(float64(p)) == plain.percentile(float64(p))
		}
		if !same {
			t.Fatalf("%v is not as %v", d, all)
		}
	}
}

func TestRatesAreThoseOfThreads(t *testing.T) {
	// The second thread had 5 responses in three tenths of a second. The last windows are
	// incomplete.
	r := &load.Result{Seconds: 0.45, Windows: [][]uint32{{10, 20, 10, 33, 7}, {0, 0, 5, 10, 99}}}
	if got, want := fmt.Sprint((&Command{}).rates(r).bars), "[{16 1} {100 3} {200 1} {330 1}]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	// 3150 in 200 ms are 15.75 per millisecond, in 300 ms 10.5, in 400 ms 7.9.
	r = &load.Result{Seconds: 0.4, Windows: [][]uint32{{3000, 150, 0, 0}, {0, 0, 5, 10}}}
	if got, want := fmt.Sprint((&Command{isV1: true}).rates(r).bars),
		"[{0 4} {7000 1} {10000 1} {15000 1} {30000 1}]"; got != want {
		t.Errorf("wrk 1.0: got %s, want %s", got, want)
	}
}
