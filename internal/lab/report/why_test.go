package report

import (
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/lab/sample"
)

// A cause needs more memory or a busier collector than the control's, and a difference. The outcome
// of its counter-experiment follows it.
func TestMemoryIsACauseThatIsTested(t *testing.T) {
	const (
		allocates = "nginx → net/http: The application allocates about 50 KB per request (net/http: 1.0 KB), and its garbage collector uses 20 % of its CPU time (net/http: 2 %): about 2.7 µs of the 17.5 µs difference"
		collects  = "nginx → net/http: The application's garbage collector uses 20 % of its CPU time (net/http: 2 %): about 2.7 µs of the 17.5 µs difference"
		with      = "; with a garbage collector that runs a quarter as often the difference "
	)
	for _, test := range []struct {
		name         string
		bytes, share float64 // of the contender
		outcome      *sample.CounterExperiment
		want         string
	}{
		{"nginx-nethttp", 50_000, 0.2, nil, allocates + "."},
		{"nginx-nethttp", 2_000, 0.2, nil, collects + "."},
		{"nginx-nethttp", 2_000, 0.05, nil, ""},
		{"fasthttp", 50_000, 0.2, nil, ""}, // it costs less
		{"nginx-nethttp", 2_000, 0.2,
			&sample.CounterExperiment{Of: []float64{60}, Toggled: []float64{17}, Control: []float64{18}},
			collects + with + "disappears, from +42.0 to −1.0 µs."},
		{"nginx-nethttp", 2_000, 0.2,
			&sample.CounterExperiment{Of: []float64{60}, Toggled: []float64{40}, Control: []float64{20}},
			collects + with + "shrinks from +40.0 to +20.0 µs."},
		{"nginx-nethttp", 2_000, 0.2,
			&sample.CounterExperiment{Of: []float64{60}, Toggled: []float64{59}, Control: []float64{20}},
			collects + with + "stays (+40.0, then +39.0 µs), so the cause is another."},
		{"nginx-nethttp", 2_000, 0.2, &sample.CounterExperiment{Failure: "it died"},
			collects + "; the counter-experiment failed: it died."},
	} {
		run := fixture()
		trace := func(name string, bytes, share float64) {
			r := record(name, 1, run.Conditions[0], 0, 10)
			used := r.WeightUs() / 1e6 * r.Load.PerSecond()
			r.Attribution = &sample.Attribution{Collector: &sample.Collector{
				BytesPerSecond: bytes * r.Load.PerSecond(), CPUPerSecond: share * used}}
			run.Records = append(run.Records, r)
		}
		trace("nethttp", 1000, 0.02)
		trace(test.name, test.bytes, test.share)
		if test.outcome != nil {
			test.outcome.Contender, test.outcome.Condition = test.name, run.Conditions[0]
			run.CounterExperiments = []sample.CounterExperiment{*test.outcome}
		}
		var text strings.Builder
		if err := New(run).WriteText(&text); err != nil {
			t.Fatal(err)
		}
		got := squeeze(text.String())
		if want := "Causes of the differences from net/http " + test.want; test.want != "" && !strings.Contains(got, want) ||
			test.want == "" && strings.Contains(got, "Causes of") {
			_, causes, _ := strings.Cut(got, "Causes of")
			t.Errorf("%s, %v bytes, %v: got %.400s, want %s", test.name, test.bytes, test.share, causes, want)
		}
	}
}
