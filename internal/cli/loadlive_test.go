package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/hist"
)

func TestLiveShowsTheLastSeconds(t *testing.T) {
	plan := &load.Plan{Connections: 8, Warmup: 2 * time.Second, Duration: 10 * time.Second}
	var out bytes.Buffer
	l := newLive(newProgress(&out, 0), plan)
	tell := plan.Trace
	tell.Progress(load.Progress{Elapsed: time.Second})
	for i := range 3*liveSeconds + 1 {
		n := uint64(i)
		at := time.Duration(i) * time.Second / 10
		tell.Progress(load.Progress{Measuring: true, Elapsed: at, Requests: 100 * n})
		if i%10 == 0 {
			tell.Second(load.Second{Requests: 1000, Errors: n / 20,
				Latency: hist.Packed{Count: 1000, P50: time.Millisecond, P99: 2 * time.Millisecond}})
		}
	}
	// The sparklines show 13 seconds.
	want := strings.Join([]string{
		"████████████████████████  12s of 10s", "requests/s  1,000      █████████████",
		"p50         1ms        █████████████",
		"p99         2ms        █████████████", "errors      none",
	}, "\n")
	if got := strings.Join(l.lines(), "\n"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := l.plain(); got != "12s of 10s  1,000 requests/s  p50 1ms  p99 2ms  0 errors" {
		t.Errorf("got %s", got)
	}
	tell.Progress(load.Progress{Measuring: true, Elapsed: 13 * time.Second, Requests: 13000,
		Errors: load.Errors{Read: 4, Status: 3, First: "read: oh"}})
	want = "errors      7          ▁▁▂▂▃▃▅▅▆▆▇▇█\n            read 4  status 3\nfirst       read: oh"
	if got := strings.Join(l.lines(), "\n"); !strings.HasSuffix(got, want) {
		t.Errorf("got\n%s\nwant at its end\n%s", got, want)
	}
	tell.Second(load.Second{Errors: 1})
	tell.Progress(load.Progress{Measuring: true, Elapsed: 14 * time.Second,
		Errors: load.Errors{Read: 5, First: "read: " + strings.Repeat("a word ", 11)}})
	want = "p50         none       █████████████▁\np99         none       █████████████▁\nerrors "
	if got := strings.Join(l.lines(), "\n"); !strings.Contains(got, want) ||
		!strings.Contains(got, "first       read: a word a word a word a word a word a word a word a word a\n            word a word") {
		t.Errorf("without responses in a second, and a long error, got\n%s", got)
	}
	if out.Len() != 0 {
		t.Errorf("no terminal, and no time for a line: %q", out.String())
	}
	l.display.printed = time.Now().Add(-plainEvery)
	l.display.show(l.lines(), l.plain())
	if got := out.String(); !strings.HasPrefix(got, "14s of 10s ") || strings.Count(got, "\n") != 1 {
		t.Errorf("got %q", got)
	}
}

// Without a duration, progress is the share of requests.
func TestLiveShowsTheShareOfRequests(t *testing.T) {
	l := &live{plan: &load.Plan{Requests: 50000}}
	l.now = load.Progress{Measuring: true, Elapsed: 1500 * time.Millisecond, Requests: 12500}
	if share, text := l.done(); share != 0.25 || text != "12,500 of 50,000 requests, 1.5s" {
		t.Errorf("%v, %s", share, text)
	}
	l.plan.Duration = 2 * time.Second
	if share, text := l.done(); share != 0.75 || text != "12,500 of 50,000 requests, 1.5s of 2s" {
		t.Errorf("%v, %s", share, text)
	}
}
