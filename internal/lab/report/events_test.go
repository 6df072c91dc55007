package report

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/page"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load/hist"
)

// eventsRun has one case without a loss, and one that lost requests beside a crowd.
func eventsRun() *sample.Run {
	e := &sample.Events{
		Timeout: time.Second, Groups: []sample.Group{{Name: "GET", Rate: 2}},
		Cases: []sample.Case{
			{Name: "a", Title: "upgrade", About: "One"}, {Name: "b", Title: "restart", About: "Other"},
		},
	}
	for i := range e.Cases {
		var t sample.Traffic
		for n := range 6 {
			due, o := time.Duration(n)*500*time.Millisecond, sample.Response
			if i == 1 && (n == 2 || n == 3) {
				o = sample.Refused
			} else if i == 1 && n == 4 {
				o = sample.Status
			}
			t.Add(sample.Request{Due: due, Outcome: o, Took: time.Duration(n+1) * time.Millisecond})
		}
		e.Cases[i].Traffic = t
		e.Cases[i].Marks = []sample.Mark{{At: time.Second, Text: "SIGTERM"}}
	}
	return &sample.Run{
		Experiment: "deploy", Flags: []string{"deploy", "--only", "a,b"}, Title: "A deploy", Question: "How many?",
		Seconds: 6, Measure: 3 * time.Second, Events: e,
	}
}

func TestVerdictCountsLosses(t *testing.T) {
	r := eventsRun()
	want := "No request was lost with upgrade. restart lost 3 of 6 requests, within 1.0 s."
	testkit.Equal(t, New(r).Verdict(), want)
	r.Events.Cases[1].Samples = []sample.Moment{{Memory: 2e6}, {At: 900 * time.Millisecond, Memory: 9e6, Crowd: 500}}
	r.Events.Cases[0].Samples = []sample.Moment{{Memory: 2e6}, {At: 900 * time.Millisecond, Memory: 3e6, Crowd: 500}}
	want = "No request was lost with upgrade. restart lost 3 of 6 requests, from 500 slow connections on. " +
		"Memory grew least with upgrade (1 MB) and most with restart (7 MB)."
	testkit.Equal(t, New(r).Verdict(), want)
	testkit.Equal(t, New(&sample.Run{Events: new(sample.Events)}).Verdict(), "Nothing was measured.")
}

// The bars of a second are as high as its requests, and a loss is visible.
func TestChartStacksOutcomes(t *testing.T) {
	r := eventsRun()
	draw := func() (*page.Drawing, string) {
		a := New(r)
		c := a.strip(&a.caseLines()[1])
		return c, string(c.HTML())
	}
	c, text := draw()
	heights := make(map[string]float64)
	for _, m := range regexp.MustCompile(`<rect class="([^"]*)"[^>]* y="([^"]*)"[^>]* height="([^"]*)"`).
		FindAllStringSubmatch(text, -1) {
		y, _ := strconv.ParseFloat(m[2], 64)
		height, _ := strconv.ParseFloat(m[3], 64)
		heights[m[1]] += height
		if y < 20 || y+height > c.Height-footHeight+1 {
			t.Errorf("outside: %s", m[0])
		}
	}
	if heights["outcome-refused"] != barsHeight || heights["outcome-error-page"] != barsHeight/2 {
		t.Errorf("%v", heights)
	}
	if strings.Contains(text, `"memory"`) || strings.Count(text, `class="event"`) != 1 {
		t.Error(text)
	}
	r.Events.Cases[1].Samples = []sample.Moment{{Memory: 1}, {At: time.Second, Memory: 2, Crowd: 3}}
	if _, text = draw(); !strings.Contains(text, `"memory"`) || !strings.Contains(text, `"crowd"`) {
		t.Error("a crowd has no lines")
	}
}

func TestFilesOfEventsAreWritten(t *testing.T) {
	dir := t.TempDir()
	r := eventsRun()
	r.Events.Cases = append(r.Events.Cases, sample.Case{Name: "c", Title: "nginx <b>", Absent: "nginx is missing"})
	r.Events.Cases[1].Marks = append(r.Events.Cases[1].Marks, sample.Mark{At: 2 * time.Second, Text: "SIGKILL"})
	r.Events.Cases[1].Samples = []sample.Moment{{Memory: 1}, {At: time.Second, Memory: 2, Crowd: 3}}
	testkit.WriteFile(t, filepath.Join(dir, sample.JournalFile), "")
	testkit.Must(t, errors.Join(r.Write(dir), New(r).WriteFiles(dir)))
	before, after := New(r).Text(), New(testkit.Value(sample.Read(dir))(t)).Text()
	testkit.Equal(t, after, before, "read again")
	for _, want := range []string{".#o", "SIGTERM at 1.0 s", "error page", "tare weigh deploy --only a,b"} {
		testkit.Contains(t, before, want)
	}
	for name, want := range map[string]string{
		"report.html": "LEFT OUT: nginx &lt;b&gt;: nginx is missing", "report.md": "# A deploy",
		"run.json": `"experiment": "deploy"`, "results.csv": "case,requests,lost",
	} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: no %q (%v)", name, want, err)
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	for _, want := range []string{
		`<path class="memory" d="M`, `<path class="crowd" d="M`, `text-anchor="end">SIGKILL<`,
	} {
		if err != nil || !strings.Contains(string(page), want) {
			t.Errorf("the page has no %q (%v)", want, err)
		}
	}
	if r.Complete() {
		t.Error("a run without a case is complete")
	}
}

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
	text := New(again).Brief()
	const (
		a = "  A    2.5 KB   10.0 µs  5.0 ms  10.0 ms              0\n"
		b = "  B   10.0 KB   10.0 µs  5.0 ms  10.0 ms              0       2\n"
	)
	for _, want := range []string{
		"No stream was lost with A. B lost 2 of 3 streams.", "4 clients: tokens", a, b,
		"LEFT OUT: C: C is missing", "B: 3 of 4 streams (tokens) were opened: 502",
	} {
		testkit.Contains(t, text, want)
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
