package cli

import (
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
