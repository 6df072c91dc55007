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
quick: {blocks: 1, measure: 200ms, cores: [1], connections: [4], gomaxprocs: [1, 3], rate: {share: 0.5}}
full: {blocks: 2, measure: 200ms, cores: [1], connections: [4]}
`

// Trials at a fixed rate follow those at saturation, whose conditions are all combinations.
func TestFixedRateFollowsSaturation(t *testing.T) {
	testkit.Long(t, "it starts contenders")
	root := project(t)
	testkit.WriteFile(t, filepath.Join(root, "experiments", "small", lab.ExperimentFile),
		regimes)
	run, _, err := lab.Weigh(context.Background(), lab.Options{
		Root: root, Experiment: "small",
	})
	testkit.Must(t, err)
	if c := run.Conditions; len(c) != 3 || c[0].Rate > 0 || c[0].Procs != 1 || c[1].Procs != 3 || c[2].Rate <= 0 {
		t.Fatalf("conditions %+v", c)
	}
	testkit.Contains(t, strings.Join(run.Notes, " "), "requests/s is 50 % of what the slowest, ")
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
	for _, c := range run.Conditions {
		testkit.Equal(t, trials[c], 1, "trials of the control under", c)
	}
	a := analyze.Analyze(run)
	if len(a.Tables) != 3 || len(a.Tables[0].Rows) != 3 {
		t.Errorf("%d tables", len(a.Tables))
	}
}
