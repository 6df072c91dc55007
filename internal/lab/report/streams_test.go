package report

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load/hist"
)

// streamsRun has a server that keeps its streams, and one that loses some in a reload.
func streamsRun() *sample.Run {
	phase := func(step string, lost int) sample.Phase {
		h := hist.New()
		for n := range 10 {
			h.Record(time.Duration(n+1) * time.Millisecond)
		}
		return sample.Phase{Step: step, Length: time.Second, Lost: lost, Server: 100 * time.Microsecond, Latency: h}
	}
	open, steady := phase(sample.Opening, 0), phase("", 0)
	return &sample.Run{Experiment: "streams", Flags: []string{"streams"}, Title: "Streams", Events: &sample.Events{
		Cases: []sample.Case{
			{Name: "a-sse-4", Title: "A", Streams: &sample.Streams{Kind: "tokens", Clients: 4, Opened: 4,
				Memory: [2]int64{1e6, 1.01e6}, Phases: []sample.Phase{open, steady}}},
			{Name: "b-sse-4", Title: "B", Streams: &sample.Streams{Kind: "tokens", Clients: 4, Opened: 3, Failure: "502",
				Memory: [2]int64{1e6, 1.03e6}, Phases: []sample.Phase{open, steady, phase("reload", 2)}}},
			{Name: "c-sse-4", Title: "C", Absent: "C is missing"},
		},
	}}
}

func TestStreamsAreTables(t *testing.T) {
	r, dir := streamsRun(), t.TempDir()
	r.Seconds = 1
	testkit.WriteFile(t, filepath.Join(dir, sample.JournalFile), "")
	testkit.Must(t, errors.Join(r.Write(dir), New(r).WriteFiles(dir)))
	again := testkit.Value(sample.Read(dir))(t)
	var text strings.Builder
	testkit.Must(t, New(again).WriteBrief(&text))
	const (
		a = "  A    2.5 KB   10.0 µs  5.0 ms  10.0 ms"
		b = "  B   10.0 KB   10.0 µs  5.0 ms  10.0 ms                2\n"
	)
	for _, want := range []string{
		"No stream was lost with A. B lost 2 of 3 streams.", "4 clients: tokens", a, b,
		"LEFT OUT: C: C is missing", "B: 3 of 4 streams (tokens) were opened: 502",
	} {
		testkit.Contains(t, text.String(), want)
	}
	for name, want := range map[string]string{
		"results.csv": "a-sse-4,4,4,2.5,10,", "report.html": "<td>B</td><td>3</td><td>10.0 KB</td>",
		"report.md": "| 10.0 KB | 10.0 µs |",
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: no %q in %s (%v)", name, want, text, err)
		}
	}
}
