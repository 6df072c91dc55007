package cli

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/hist"
)

// The sentence names the sustained rate, the failed rate with its reason, and whose limit it is.
func TestSearchSentenceNamesRatesAndLimits(t *testing.T) {
	goal := testkit.Value(load.ParseGoal("p99<10ms,errors<1%"))(t)
	elapsed := hist.New()
	elapsed.Record(3100 * time.Microsecond)
	sustained := load.Try{Rate: 41_200, Sustained: true, P99: elapsed.Max(),
		Result: &load.Result{Due: 1000, Latency: elapsed}}
	failed := load.Try{Rate: 42_000, Why: []string{"p99 14ms, want <10ms"}}
	for want, f := range map[string]load.SearchResult{
		"sustains 41,200 requests/s: p99 3.1ms, errors 0%; fails at 42,000: p99 14ms, want <10ms":                                                           {Verdict: load.Settled, Sustained: 41_200, Failed: 42_000},
		"sustains 41,200 requests/s: p99 3.1ms, errors 0%; this is the highest allowed rate":                                                                {Verdict: load.AllSustained, Sustained: 41_200},
		"sustains at least 41,200 requests/s: p99 3.1ms, errors 0%; at 42,000 requests/s the generator, not the server, is the limit: p99 14ms, want <10ms": {Verdict: load.GeneratorBound, Sustained: 41_200, Failed: 42_000},
		"no result for the server: at 42,000 requests/s the generator is the limit: p99 14ms, want <10ms":                                                   {Verdict: load.GeneratorBound, Failed: 42_000},
		"sustains no rate: fails at 42,000: p99 14ms, want <10ms": {Verdict: load.NoneSustained,
			Failed: 42_000},
		"no rate was confirmed in 2 runs; 41,200 requests/s were sustained at least once":                                                    {Verdict: load.Unsettled, Failed: 42_000},
		"sustains at least 41,200 requests/s: p99 3.1ms, errors 0%; higher rates were not tried in 2 runs":                                   {Verdict: load.Unsettled, Sustained: 41_200},
		"sustains 41,200 requests/s: p99 3.1ms, errors 0%; fails at 42,000: p99 14ms, want <10ms; there were too few runs to narrow the gap": {Verdict: load.Unsettled, Sustained: 41_200, Failed: 42_000},
	} {
		f.Goal, f.Tries = goal, []load.Try{sustained, failed}
		testkit.Equal(t, searchSentence(&f), want, f.Verdict)
	}
}

// Sustained and failed rates are drawn at their positions, with the goal between them.
func TestRateCurveShowsRatesAndGoal(t *testing.T) {
	goal := testkit.Value(load.ParseGoal("p99<10ms"))(t)
	tries := []load.Try{{Rate: 500, P99: time.Millisecond, Sustained: true}, {Rate: 1000, P99: 100 * time.Millisecond},
		{Rate: 2000}}
	lines := strings.Split(newRateCurve(tries, goal).String(), "\n")
	const first = 2 // after an empty line and the name
	if len(lines) < first+curveHeight {
		t.Fatalf("%d lines", len(lines))
	}
	top, bottom := []rune(lines[first]), []rune(lines[first+curveHeight-1])
	if top[len(top)-1] != failedMark || bottom[len(bottom)-1] != sustainedMark ||
		len(top)-len(bottom) != curveWidth/2-1 &&
			len(top)-len(bottom) != curveWidth/2 {
		t.Errorf("the first row is %q, the last %q", string(top), string(bottom))
	}
	if !strings.HasPrefix(lines[first], "   100ms ┤") || !strings.HasPrefix(lines[first+curveHeight-1], "     1ms ┤") {
		t.Errorf("labels: %q, %q", lines[first], lines[first+curveHeight-1])
	}
	if limit := strings.Join(lines[first:first+curveHeight], "\n"); strings.Count(limit,
		string(limitMark)) != curveWidth {
		t.Errorf("the goal is not a line:\n%s", limit)
	}
	if newRateCurve(nil, goal).String() != "" || newRateCurve(tries[2:], goal).String() != "" {
		t.Error("nothing is drawn")
	}
}

// impatient is a tool that exits at the first error.
type impatient struct{ trace *load.Trace }

func (i impatient) Plan() load.Plan                               { return load.Plan{Trace: i.trace} }
func (impatient) Begin(io.Writer, io.Writer)                      {}
func (impatient) Report(io.Writer, io.Writer, *load.Result) error { return nil }
func (impatient) Footnotes(*load.Result) []string                 { return nil }
func (impatient) GivesUp(e *load.Errors) bool                     { return e.Read > 0 }

// A run ends when the tool would have exited, and the tool's own progress is reported until then.
func TestRunEndsWhenTheToolWouldExit(t *testing.T) {
	reported, gaveUp := 0, 0
	for _, trace := range []*load.Trace{nil, {Progress: func(load.Progress) { reported++ }}} {
		p := planWithExit(impatient{trace}, func() { gaveUp++ })
		p.Trace.Progress(load.Progress{})
		p.Trace.Progress(load.Progress{Errors: load.Errors{Status: 1}})
		p.Trace.Progress(load.Progress{Errors: load.Errors{Read: 1}})
	}
	testkit.Equal(t, [...]int{reported, gaveUp}, [...]int{2, 2}, "it reported, and gave up")
}
