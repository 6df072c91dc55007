package lab

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/hist"
)

// measured returns a run of some blocks in which the ratio of a contender to the control is 1 plus
// or minus spread.
func measured(blocks int, spread float64) *runner {
	w := &runner{trials: Trials{Blocks: 6}}
	c := sample.Condition{Cores: 1, Connections: 1}
	w.run = &sample.Run{
		Blocks: blocks, Conditions: []sample.Condition{c},
		Entrants: []sample.Entrant{{Name: "control", Kind: sample.Control},
			{Name: "way", Title: "way", Kind: sample.Way}},
	}
	w.recorder = &Recorder{Run: w.run}
	add := func(block int, name string, us float64) {
		w.run.Records = append(w.run.Records, sample.Record{
			Block: block, Condition: c, Contender: name,
			Load:  &load.Result{Requests: 1000, Seconds: 1, Latency: hist.New(), Service: hist.New()},
			Costs: map[string][]proc.Cost{"application": {{User: time.Duration(us * 1e6)}}},
		})
	}
	for block := 1; block <= blocks; block++ {
		add(block, "control", 10)
		add(block, "way", 10*(1+spread*math.Pow(-1, float64(block))))
	}
	return w
}

// Blocks are added until intervals are narrow or time is up. There are never fewer than the
// experiment's.
func TestBlocksAreAddedUntilIntervalsAreNarrow(t *testing.T) {
	for _, test := range []struct {
		blocks  int
		spread  float64
		until   Until
		elapsed time.Duration
		want    bool
	}{
		{6, 0.5, Until{}, 0, true},
		{5, 0, Until{Width: 0.02}, time.Hour, false},
		{6, 0.001, Until{Width: 0.02}, 0, true},
		{6, 0.1, Until{Width: 0.02}, 0, false},
		{6, 0.1, Until{Width: 0.2}, 0, true},
		{6, 0.1, Until{Width: 0.02, Within: time.Minute}, time.Minute, true},
		{6, 0.1, Until{Width: 0.02}, DefaultWithin, true},
	} {
		w := measured(test.blocks, test.spread)
		w.Until = test.until
		got := w.enough(test.blocks, test.elapsed)
		for range narrowInARow - 1 {
			if got && test.until.Width > 0 && test.elapsed == 0 {
				t.Errorf("%+v: ended too early", test)
			}
			got = w.enough(test.blocks, test.elapsed)
		}
		testkit.Equal(t, got, test.want, test)
	}
	testkit.Equal(t, (Until{}).Most(6), 6, "blocks at most")
	testkit.Equal(t, (Until{Width: 1}).Most(maxBlocks), maxBlocks, "blocks at most")
}

// The caller receives what was measured after the third block and each later one.
func TestEarlyResultsAreOfTheBlocksSoFar(t *testing.T) {
	w := measured(6, 0)
	var got []int
	w.Early = func(r *sample.Run) { got = append(got, r.Blocks) }
	for blocks := 1; blocks <= 5; blocks++ {
		w.early(blocks)
	}
	if !slices.Equal(got, []int{3, 4, 5}) || w.run.Blocks != 6 {
		t.Errorf("%d; the run has %d blocks", got, w.run.Blocks)
	}
}
