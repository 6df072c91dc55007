package lab_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/lab"
	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/testkit"
)

const regimes = `title: t
request: {method: GET, path: /, host: a.b}
expect: {status: 200, body: hello}
control: http
ways: [http, unix]
differs:
  - {what: bytes, contenders: [unix], why: records}
quick: {blocks: 1, measure: 200ms, cores: [1], connections: [4], rate: {share: 0.5}}
full: {blocks: 2, measure: 200ms, cores: [1], connections: [4]}
sweeps:
  - {axis: gomaxprocs, values: [1, 3], connections: 4, contenders: [http, unix], blocks: 2, measure: 1s}
`

// Trials at a fixed rate and sweeps follow those at saturation, and do not change their tables.
func TestFixedRateAndSweepsFollowSaturation(t *testing.T) {
	testkit.Long(t, "it starts contenders")
	root := project(t)
	testkit.WriteFile(t, filepath.Join(root, "experiments", "small", lab.ExperimentFile),
		regimes)
	run, _, err := lab.Weigh(context.Background(), lab.Options{
		Root: root, Experiment: "small", Sweep: []string{lab.SweepAll},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(run.Conditions) != 2 || !run.Conditions[0].Saturated() || run.Conditions[1].Rate <= 0 ||
		len(run.Sweeps) != 1 || run.Sweeps[0].Blocks != 1 {
		t.Fatalf("conditions %+v, sweeps %+v", run.Conditions, run.Sweeps)
	}
	if !strings.Contains(strings.Join(run.Notes, " "), "requests/s is 50 % of what the slowest, ") {
		t.Errorf("no note about the rate: %q", run.Notes)
	}
	trials := make(map[sample.Condition]int)
	for _, r := range run.Records {
		if !r.Timed() || r.Contender != "http" {
			continue
		}
		trials[r.Condition]++
		if due := r.Rate * r.Load.Seconds; (r.Rate > 0) != (r.Load.Generator.Lag != nil) ||
			(r.Rate > 0) != (r.Load.Due > 0) || r.Load.Due > 2+1.1*due {
			t.Errorf("%+v: %v were due, want at most %v", r.Condition, r.Load.Due, due)
		}
	}
	want := map[sample.Condition]int{run.Conditions[0]: 1, run.Conditions[1]: 1}
	for _, s := range run.Sweeps {
		for _, c := range s.Conditions {
			want[c] = s.Blocks
		}
	}
	for c, n := range want {
		if trials[c] != n {
			t.Errorf("%d trials of the control under %+v, want %d", trials[c], c, n)
		}
	}
	a := analyze.Analyze(run)
	if len(a.Tables) != 2 || len(a.Tables[0].Rows) != 3 || len(a.SweepTables) != 1 {
		t.Errorf("%d tables, %d sweeps", len(a.Tables), len(a.SweepTables))
	}
}
