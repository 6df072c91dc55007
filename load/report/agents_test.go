package report

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/hist"
)

// joined returns the run of two agents, of which the second was lost.
func joined(t *testing.T) *Run {
	t.Helper()
	r := sample(t)
	lag := hist.New()
	lag.Record(30 * time.Microsecond)
	packed, err := r.Latency.Pack()
	testkit.Must(t, err)
	packed.Encoded = ""
	r.Parts = []load.PartResult{
		{Name: "<host1>", Connections: 32, Threads: 1, Seconds: 3.5, Requests: 17500, Latency: packed,
			Generator: load.Generator{Busy: 0.25, Lag: lag}, ClockError: 110 * time.Microsecond, Timeline: r.Timeline},
		{Name: "host2", Connections: 32, Threads: 1, Seconds: 2, Requests: 17500, Latency: packed,
			Errors: load.Errors{Status: 10, Connect: 2}, Generator: load.Generator{Busy: 0.95},
			Began: 1500 * time.Microsecond, ClockError: 120 * time.Microsecond, Behind: 3 * time.Second,
			Lost: "its process ended", Timeline: r.Timeline[:2]},
	}
	return r
}

func TestReportsNameTheAgents(t *testing.T) {
	wantLines(t, text(t, joined(t)),
		`^64 connections, 2 threads, 3.5s, closed loop, 2 agents$`,
		`^ *agent +connections +requests/s +errors +p50 +p99 +busy +sent late +began after *$`,
		`^ *<host1> +32 +5,000 +0 +1\.14ms +\S+ +25% +30µs +0µs ±110µs *$`,
		`^ *host2 +32 +8,750 +12 +1\.14ms +\S+ +95% +0µs +1\.5ms ±120µs +lost$`,
		`^The generator on host2 was lost: its process ended\.$`,
		`^The generator on host2 fell behind: it reported a second 3\.0 s after its end\.$`,
		`^The generator on host2 was busy 95% of the time: it, not the server, may have\nlimited the rate\.$`,
		`^The generators began 1\.5ms apart\.$`,
	)
	var page, row bytes.Buffer
	testkit.Must(t, joined(t).WritePage(&page))
	for want, n := range map[string]int{
		"<h2>Agents</h2>": 1, "<h3>&lt;host1&gt;</h3>": 1, "<h3>host2</h3>": 1, "lost: its process ended": 1,
		"<figure>": 3 + 4, // each agent has a plot of its rate and one of its latency
	} {
		if got := strings.Count(page.String(), want); got != n {
			t.Errorf("the page has %d times %s, want %d", got, want, n)
		}
	}
	if err := joined(t).WriteCSV(&row); err != nil || !strings.Contains(row.String(), "agents,doubts\n") ||
		!strings.Contains(row.String(), `,2,"the generator on host2 was lost`) {
		t.Errorf("%v: %s", err, &row)
	}
	if page := text(t, sample(t)); strings.Contains(page, "agent") {
		t.Errorf("a run of one process names agents:\n%s", page)
	}
}

func TestAgentsShortLastSecondIsNotDrawn(t *testing.T) {
	r := sample(t)
	timeline := slices.Clone(r.Timeline[:2])
	whole := load.PartResult{Name: "a", Seconds: 2, Timeline: timeline}
	longer := load.PartResult{Name: "b", Seconds: 2.03, Timeline: append(timeline, load.Second{Index: 2, Requests: 1})}
	r.Parts = []load.PartResult{whole, longer}
	plots := r.AgentPlots()
	if a, b := plots[0].Rate.Lines[0].Path, plots[1].Rate.Lines[0].Path; a != b {
		t.Errorf("30 ms more are drawn: %s, want %s", b, a)
	}
}
