package lab_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab"
	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
	"github.com/tarehq/tare/internal/testkit"
)

// weighTwins measures a control and its twin alone.
func weighTwins(t *testing.T, blocks int, measure time.Duration) *sample.Run {
	t.Helper()
	root := t.TempDir()
	for file, text := range map[string]string{
		filepath.Join("experiments", "twins", lab.ExperimentFile): fmt.Sprintf(`title: twins
request: {method: GET, path: /, host: a.b}
expect: {status: 200, body: hello}
control: http
ways: [http]
quick: {blocks: %[1]d, warmup: 50ms, measure: %[2]v, cores: [1], connections: [4]}
full: {blocks: %[1]d, measure: %[2]v, cores: [1], connections: [4]}
`, blocks, measure),
		filepath.Join("contenders", "http", contender.FileName): fmt.Sprintf("title: http\nabout: a\nrun: %s play http {port}\nprotocol: http\n", os.Args[0]),
	} {
		testkit.WriteFile(t, filepath.Join(root, file), text)
	}
	run, _, err := lab.Weigh(context.Background(), lab.Options{
		Root: root, Experiment: "twins", Logf: t.Logf,
	})
	if run == nil {
		t.Fatal(err)
	}
	return run
}

// twinIn returns the twin's row for some blocks of a run; nil if they have no interval.
func twinIn(all *sample.Run, first, blocks int) *analyze.Row {
	one := *all
	one.Blocks, one.Records = blocks, nil
	for _, r := range all.Records {
		if r.Block -= first; r.Block >= 1 && r.Block <= blocks {
			one.Records = append(one.Records, r)
		}
	}
	tables := analyze.Analyze(&one).Tables
	if len(tables) == 0 {
		return nil
	}
	if row := tables[0].Row(sample.Twin); row != nil && row.Trials > 0 && row.Ratio.Known() {
		return row
	}
	return nil
}

// The control and its twin hardly differ, even on a busy machine.
func TestTwinHardlyDiffers(t *testing.T) {
	testkit.Long(t, "it starts contenders")
	testkit.NoRace(t, slowWithRace)
	const blocks, much = 7, 1.5 // one more than an interval needs
	var wrong error
	for measure := 500 * time.Millisecond; measure <= 4*time.Second; measure *= 2 {
		row := twinIn(weighTwins(t, blocks, measure), 0, blocks)
		if row == nil {
			wrong = errors.New("no finding") // the machine had no time for a trial
			continue
		}
		if i := row.Ratio; i.Mid > 2*much || i.Mid < 1/much/2 || i.Lo > much || i.Hi < 1/much {
			wrong = fmt.Errorf("the twin costs %.2f times the control, %.2f to %.2f", i.Mid, i.Lo, i.Hi)
			continue
		}
		return
	}
	t.Error(wrong)
}

// Over many real runs the twin differs from the control no more often than intervals of that
// confidence are wrong by chance. Six blocks of a longer run are like a run of six: every block has
// fresh processes.
func TestTwinDiffersOnlyByChance(t *testing.T) {
	if !isSlow() {
		t.Skip("takes minutes; TARE_SLOW=1 runs it")
	}
	const weighings, each, blocks, chance = 10, 4, 6, 1e-3
	alarms, missed, runs := 0, 0, 0
	for range weighings {
		all := weighTwins(t, each*blocks, 300*time.Millisecond)
		for n := range each {
			row := twinIn(all, n*blocks, blocks)
			if row == nil || row.Others > 0 {
				continue
			}
			runs++
			t.Logf("%.3f (%.3f to %.3f): %v", row.Ratio.Mid, row.Ratio.Lo, row.Ratio.Hi, row.Finding)
			if row.Finding == stat.Less || row.Finding == stat.More {
				alarms++
			}
			if !row.Ratio.Contains(1) {
				missed++
			}
		}
	}
	most := mostByChance(runs, 1-stat.Confidence, chance)
	t.Logf("%d false alarms, %d intervals that miss 1, of %d; by chance at most %d", alarms, missed, runs, most)
	if alarms > most || missed > most {
		t.Errorf("%d false alarms, %d intervals that miss 1, of %d runs; by chance at most %d", alarms, missed, runs, most)
	}
	if runs < weighings*each/2 {
		t.Errorf("only %d of %d runs have an interval", runs, weighings*each)
	}
}

// mostByChance returns the number of events of probability p in n runs that is exceeded with a
// probability below rare.
func mostByChance(n int, p, rare float64) int {
	term, more := math.Pow(1-p, float64(n)), 1.0
	for k := range n {
		if more -= term; more < rare {
			return k
		}
		term *= float64(n-k) / float64(k+1) * p / (1 - p)
	}
	return n
}

func TestMostByChance(t *testing.T) {
	for _, test := range []struct {
		n    int
		p    float64
		most int
	}{{1, 0.5, 1}, {10, 0.5, 9}, {40, 0.05, 7}, {100, 0, 0}} { // ten coins are all heads once in 1024 throws
		if most := mostByChance(test.n, test.p, 1e-3); most != test.most {
			t.Errorf("%d of probability %v: at most %d, want %d", test.n, test.p, most, test.most)
		}
	}
}
