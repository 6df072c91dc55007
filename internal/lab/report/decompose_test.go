package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
	"github.com/tarehq/tare/internal/testkit"
)

// countedSample returns the sample with trials that the kernel counted, under its first condition.
func countedSample() *sample.Run {
	run := fixture()
	run.Compare = []sample.Comparison{{What: "the engine", Of: "fasthttp", Than: "tare"},
		{What: "the hop", Of: "nginx-nethttp", Than: "nethttp"}}
	add := func(name string, calls map[string]map[string]uint64) {
		r := record(name, 1, run.Conditions[0], 0, 10)
		r.Block, r.Attribution = 0, &sample.Attribution{Calls: calls,
			Missing: []string{"system calls were not counted: no right"}}
		run.Records = append(run.Records, r)
	}
	one := func(n uint64) uint64 { return n * perTrial }
	add("nethttp", map[string]map[string]uint64{contender.RoleApplication: {"read": one(2), "write": one(1)},
		sample.RoleGenerator: {"epoll_wait": one(9)}})
	add("nginx-nethttp", map[string]map[string]uint64{
		contender.RoleApplication: {"read": one(2), "write": one(1), "accept4": one(1)},
		contender.RoleNginx:       {"recvfrom": one(2), "writev": one(2), "futex": perTrial / 1000},
	})
	return run
}

// weightsOf returns the weights of a contender's timed trials, block by block.
func weightsOf(run *sample.Run, name string, c sample.Condition) []float64 {
	weights := make([]float64, run.Blocks)
	for i := range run.Records {
		if r := &run.Records[i]; r.Contender == name && r.Condition == c && r.Timed() {
			weights[r.Block-1] = r.WeightUs()
		}
	}
	return weights
}

// The totals of decompositions equal the reported differences.
func TestDecompositionsMatchReportedDifferences(t *testing.T) {
	a := New(countedSample())
	for i := range a.Tables {
		if n := len(a.Tables[i].Decompositions); n != 5 { // four contenders, and one pair without the control
			t.Fatalf("%d decompositions", n)
		}
		for _, d := range a.Tables[i].Decompositions {
			c := a.Tables[i].Condition
			extra := stat.Difference(weightsOf(a.Run, d.Of.Name, c), weightsOf(a.Run, d.Than.Name, c))
			if extra != d.TotalUs {
				t.Errorf("%s: the total is %v, and the difference of the weights %v", differenceSentence(&d), d.TotalUs,
					extra)
			}
		}
	}
	run := countedSample()
	drop(run, "nethttp") // only the pair remains
	if all := New(run).Tables[0].Decompositions; len(all) != 1 || all[0].What != "the engine" ||
		all[0].Of.Name != "fasthttp" {
		t.Errorf("without a control: %d decompositions", len(all))
	}
}

// Counted trials are shown, and do not change the figures of timed ones.
func TestCountedTrialsDoNotChangeTimedFigures(t *testing.T) {
	with, without := New(countedSample()), New(fixture())
	for i := range without.Tables[0].Rows {
		a, b := &with.Tables[0].Rows[i], &without.Tables[0].Rows[i]
		if a.Trials != b.Trials || a.WeightUs != b.WeightUs || a.PerSecond != b.PerSecond || len(a.Failures) != 0 {
			t.Errorf("%s: %+v with counted trials, %+v without", a.Name, a.WeightUs, b.WeightUs)
		}
	}
	used := &with.Tables[0]
	testkit.Equal(t, strings.Join(used.CallNames(), " "), "read recvfrom writev accept4 write", "columns")
	testkit.Equal(t, len(used.Missing), 1, used)
	testkit.Equal(t, len(with.Tables[1].Missing), 0, "what was counted under another condition")
	var text, page bytes.Buffer
	testkit.Must(t, with.WriteText(&text))
	testkit.Must(t, with.writePage(&page))
	for _, want := range []string{"system calls were not counted: no right", "the hop costs 17.5 µs",
		"Calls: nginx recvfrom +2.0, nginx writev +2.0, application accept4 +1.0."} {
		testkit.Contains(t, squeeze(text.String()), want)
	}
	for _, want := range []string{"<li>system calls were not counted: no right</li>",
		`<td class="heat-3">2.00</td>`} {
		testkit.Contains(t, page.String(), want, "the page")
	}
	for _, bad := range []string{"NaN", "Inf", "ZgotmplZ", "%!"} {
		if strings.Contains(page.String(), bad) {
			t.Errorf("the page has %q", bad)
		}
	}
}

// A failure in a counted trial is reported, and does not change the contender's figures. If the
// contender ended while the kernel counted its calls, there is no load in which they were made.
func TestFailureInACountedTrialIsReported(t *testing.T) {
	run := countedSample()
	last := &run.Records[len(run.Records)-1]
	for _, counted := range []*sample.Attribution{last.Attribution, new(sample.Attribution)} {
		last.Failure, last.Load, last.Attribution = "it fell over", nil, counted
		table := New(run).Tables[0]
		row := table.Named("nginx-nethttp")
		testkit.Equal(t, row.Trials, blocks, "trials")
		testkit.Equal(t, len(row.Failures), 0, row.Failures)
		testkit.Contains(t, strings.Join(table.Missing, "; "), "nothing was counted of nginx → net/http: it fell over")
	}
}
