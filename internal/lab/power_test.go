package lab_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/lab"
	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
	"github.com/tarehq/tare/internal/testkit"
)

// work is additional work of a handler, in steps: about stepsPerPercent steps cost 1 % of a request
// with net/http.
func work(steps int) (x uint64) {
	for x = 1; steps > 0; steps-- {
		x = x*6364136223846793005 + 1442695040888963407
	}
	return x
}

const stepsPerPercent = 80

// heavier returns the contenders besides the control, and how many percent more work each does.
func heavier() (names []string, percents map[string]int) {
	percents = make(map[string]int)
	for _, c := range []struct {
		name    string
		percent int
	}{{"same-1", 0}, {"same-2", 0}, {"one", 1}, {"two", 2}, {"three", 3}, {"five", 5}, {"ten", 10}} {
		names = append(names, c.name)
		percents[c.name] = c.percent
	}
	return names, percents
}

// weighHeavier measures them once, for as long as "tare weigh --a --b" measures two builds.
func weighHeavier(t *testing.T) *sample.Run {
	t.Helper()
	root := t.TempDir()
	names, percents := heavier()
	experiment := fmt.Sprintf(`title: heavier
request: {method: GET, path: /, host: a.b}
expect: {status: 200, body: hello}
control: http
ways: [http, %s]
quick: {blocks: 8, warmup: 300ms, measure: 1500ms, cores: [1], connections: [64]}
full: {blocks: 8, warmup: 300ms, measure: 1500ms, cores: [1], connections: [64]}
`, strings.Join(names, ", "))
	testkit.WriteFile(t, filepath.Join(root, "experiments", "heavier", lab.ExperimentFile), experiment)
	for _, name := range append(names, "http") {
		writePlayer(t, root, name, fmt.Sprintf("works-%d {port}", percents[name]*stepsPerPercent), "protocol: http")
	}
	out := filepath.Join(t.ArtifactDir(), strconv.Itoa(os.Getpid())+"-"+filepath.Base(root))
	run, _, err := lab.Weigh(context.Background(), lab.Options{
		Root: root, Experiment: "heavier", Out: out, Logf: t.Logf,
	})
	testkit.Must(t, err)
	return run
}

// Contenders with more work are found to cost more, and equal ones are not. Intervals contain the
// truth, the mean of all runs, as often as their confidence claims. TARE_RUNS is the number of
// runs; each takes two and a half minutes.
func TestPower(t *testing.T) {
	testkit.NeedSlow(t)
	runs, err := strconv.Atoi(os.Getenv("TARE_RUNS"))
	if err != nil {
		runs = 2
	}
	rows := make(map[string][]*analyze.Row)
	for range runs {
		tables := analyze.Analyze(weighHeavier(t)).Tables
		for i := range tables[0].Rows {
			row := &tables[0].Rows[i]
			rows[row.Name] = append(rows[row.Name], row)
			t.Logf("%-7s %.4f (%.4f to %.4f) %-13v slices %.1f %%, starts %.1f %%, others %.2f", row.Name, row.Ratio.Mid, row.Ratio.Lo, row.Ratio.Hi, row.Ratio.Finding(),
				100*row.Ratio.Slices, 100*row.Ratio.Starts, row.Ratio.Others)
		}
	}
	names, percents := heavier()
	missed, alarms, equal := 0, 0, 0
	for _, name := range append(names, "twin") {
		found := make(map[stat.Finding]int)
		sum, wide := 0.0, 0.0
		for _, row := range rows[name] {
			found[row.Ratio.Finding()]++
			sum += math.Log(row.Ratio.Mid)
			wide += (row.Ratio.Hi - row.Ratio.Lo) / 2 / float64(len(rows[name]))
			if percents[name] == 0 {
				equal++
				if !row.Ratio.Contains(1) {
					missed++
				}
				if row.Ratio.Finding() == stat.More || row.Ratio.Finding() == stat.Less {
					alarms++
				}
			}
		}
		t.Logf("%-7s %+.2f %% in the mean, ±%.2f %%: more %d, unclear %d, no difference %d, less %d", name, 100*(math.Exp(sum/float64(len(rows[name])))-1), 100*wide,
			found[stat.More], found[stat.Unclear], found[stat.Same], found[stat.Less])
		if name == "ten" && found[stat.More]*10 < 8*len(rows[name]) {
			t.Errorf("ten percent more work is found in %d of %d runs", found[stat.More], len(rows[name]))
		}
	}
	most := mostByChance(equal, 1-stat.Confidence, 1e-3)
	t.Logf("of %d comparisons of equals %d miss 1, %d find a difference", equal, missed, alarms)
	if missed > most || alarms > most {
		t.Errorf("by chance at most %d", most)
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
		testkit.Equal(t, mostByChance(test.n, test.p, 1e-3), test.most, test.n, "of probability", test.p)
	}
}
