package timeline

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

func TestMain(m *testing.M) { os.Exit(testkit.Tests{M: m}.Run()) }

// exampleRun has one case without a loss, and one that lost requests beside a crowd.
func exampleRun() *Run {
	r := &Run{
		Experiment: "deploy", Flags: []string{"--only", "a,b"}, Title: "A deploy", Question: "How many?",
		Length: 3 * time.Second, Timeout: time.Second, Groups: []Group{{Name: "GET", PerSecond: 2}},
		Cases: []Case{{Name: "a", Title: "upgrade", About: "One"}, {Name: "b", Title: "restart", About: "Other"}},
	}
	for i := range r.Cases {
		var t Traffic
		for n := range 6 {
			due, o, status := time.Duration(n)*500*time.Millisecond, Response, 200
			if i == 1 && (n == 2 || n == 3) {
				o, status = Refused, 0
			} else if i == 1 && n == 4 {
				o, status = Status, 502
			}
			t.Add(Request{Due: due, Outcome: o, Status: status, Took: time.Duration(n+1) * time.Millisecond})
		}
		r.Cases[i].Groups = []Traffic{t}
		r.Cases[i].Marks = []Mark{{At: time.Second, Text: "SIGTERM"}}
	}
	return r
}

func TestRequestsAreCountedBySecond(t *testing.T) {
	r := exampleRun()
	total := r.Cases[1].Total()
	sum := total.Sum()
	if sum.Sent() != 6 || sum.Lost() != 3 || sum.Outcomes[Refused] != 2 || sum.Outcomes[Status] != 1 {
		t.Errorf("%+v", sum)
	}
	if total.FirstLost != time.Second || total.LastLost != 2*time.Second || total.Statuses[502] != 1 {
		t.Errorf("%+v", total)
	}
	if len(total.Seconds) != 3 || total.Seconds[1].Lost() != 2 || total.Seconds[0].Slowest != 2*time.Millisecond {
		t.Errorf("%+v", total.Seconds)
	}
}

// Outcomes arrive in any order.
func TestLossesMayArriveLate(t *testing.T) {
	var traffic Traffic
	traffic.Add(Request{Due: 2 * time.Second, Outcome: Timeout})
	traffic.Add(Request{Due: time.Second, Outcome: Closed})
	traffic.Add(Request{Outcome: Response, Status: 200})
	if traffic.FirstLost != time.Second || traffic.LastLost != 2*time.Second {
		t.Errorf("%+v", traffic)
	}
}

func TestVerdictCountsLosses(t *testing.T) {
	r := exampleRun()
	want := "No request was lost with upgrade. restart lost 3 of 6 requests, within 1.0 s."
	if got := r.Verdict(); got != want {
		t.Errorf("got %s", got)
	}
	r.Cases[1].Samples = []Sample{{Memory: 2e6}, {At: 900 * time.Millisecond, Memory: 9e6, Crowd: 500}}
	r.Cases[0].Samples = []Sample{{Memory: 2e6}, {At: 900 * time.Millisecond, Memory: 3e6, Crowd: 500}}
	want = "No request was lost with upgrade. restart lost 3 of 6 requests, from 500 slow connections on. " +
		"Memory grew least with upgrade (1 MB) and most with restart (7 MB)."
	if got := r.Verdict(); got != want {
		t.Errorf("got %s", got)
	}
	if got := new(Run).Verdict(); got != "Nothing was measured." {
		t.Error(got)
	}
}

// A case is disturbed if its clients were late, or if others had the processors. The report says
// what the processors did.
func TestDisturbedCasesAreReported(t *testing.T) {
	r := exampleRun()
	c := &r.Cases[1]
	c.Work = Work{
		Cores: 2, Length: 3 * time.Second, Server: time.Second, Busy: 3 * time.Second, Clients: 300 * time.Millisecond,
	}
	late := Request{Due: time.Second, Outcome: Response, Status: 200, Took: 120 * time.Millisecond}
	for _, test := range []struct {
		late, stolen time.Duration
		want         string
	}{
		{100 * time.Millisecond, 300 * time.Millisecond, ""},
		{101 * time.Millisecond, 0, "up to 101 ms late; the processors were 50 % busy: server 17 %, clients 5 %, other"},
		{101 * time.Millisecond, 360 * time.Millisecond, "other virtual machines 6 %"},
	} {
		late.Late, c.Work.Stolen = test.late, test.stolen
		c.Groups[0].Add(late)
		got := c.Disturbance(r.Timeout)
		if !strings.Contains(got, test.want) || (got == "") != (test.want == "") {
			t.Errorf("%+v: %q", test, got)
		}
	}
	if all := r.Problems(); len(all) != 1 || !strings.HasPrefix(all[0], "restart: clients sent") {
		t.Errorf("%q", all)
	}
	c.Groups[0].Seconds[1].Latest = 0
	if got := c.Disturbance(r.Timeout); !strings.Contains(got, "up to 0 ms late") {
		t.Errorf("stolen time: %q", got)
	}
}

// A quantile counts lost requests as the slowest ones.
func TestLostRequestsHaveNoQuantile(t *testing.T) {
	var traffic Traffic
	if _, known := traffic.Quantile(0.5); known {
		t.Error("no request has a quantile")
	}
	for n := range 99 {
		traffic.Add(Request{Outcome: Response, Status: 200, Took: time.Duration(n+1) * time.Millisecond})
	}
	traffic.Add(Request{Outcome: Timeout})
	if d, known := traffic.Quantile(0.99); !known || d.Round(time.Millisecond) != 99*time.Millisecond {
		t.Error(d, known)
	}
	traffic.Add(Request{Outcome: Closed})
	if d, known := traffic.Quantile(0.99); known {
		t.Error(d)
	}
}

func TestTextHasTheTimeline(t *testing.T) {
	var b bytes.Buffer
	if err := exampleRun().WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{".#o", "SIGTERM at 1.0 s", "error page", "tare weigh deploy --only a,b"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in:\n%s", want, b.String())
		}
	}
}

// The bars of a second are as high as its requests, and a loss is visible.
func TestChartStacksOutcomes(t *testing.T) {
	r := exampleRun()
	c := r.Chart(&r.Cases[1])
	heights := make(map[string]float64)
	for _, b := range c.Bars {
		heights[b.Class] += b.Height
		if b.Y < c.Top-1 || b.Y+b.Height > c.Foot+1 {
			t.Errorf("outside: %+v", b)
		}
	}
	if heights["outcome-refused"] != barsHeight || heights["outcome-error-page"] != barsHeight/2 {
		t.Errorf("%v", heights)
	}
	if c.Memory != "" || len(c.Marks) != 1 {
		t.Errorf("%+v", c)
	}
	r.Cases[1].Samples = []Sample{{Memory: 1}, {At: time.Second, Memory: 2, Crowd: 3}}
	if c = r.Chart(&r.Cases[1]); c.Memory == "" || c.Crowd == "" {
		t.Error("a crowd has no lines")
	}
}

func TestFilesAreWritten(t *testing.T) {
	dir := t.TempDir()
	r := exampleRun()
	r.Cases = append(r.Cases, Case{Name: "c", Title: "nginx <b>", Absent: "nginx is missing"})
	r.Cases[1].Marks = append(r.Cases[1].Marks, Mark{At: 2 * time.Second, Text: "SIGKILL"})
	r.Cases[1].Samples = []Sample{{Memory: 1}, {At: time.Second, Memory: 2, Crowd: 3}}
	if err := r.WriteFiles(dir); err != nil {
		t.Fatal(err)
	}
	var before, after strings.Builder
	again, err := Read(dir)
	if err := errors.Join(err, r.WriteText(&before), again.WriteText(&after)); err != nil ||
		before.String() != after.String() {
		t.Errorf("read again: %v\n%s\nwant\n%s", err, after.String(), before.String())
	}
	for name, want := range map[string]string{
		"report.html": "nginx &lt;b&gt;: nginx is missing", "report.md": "# A deploy",
		"run.json":    `"experiment": "deploy"`,
		"events.csv":  "case,clients,second,response,error_page,refused,closed,timeout,slowest_ms,latest_ms\na,GET,0,2,0,0,0,0,2,0",
		"results.csv": "case,requests,lost", "memory.csv": "case,s,memory_bytes",
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
