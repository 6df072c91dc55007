package wrk

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/hist"
)

// sample returns a histogram of durations in microseconds with their counts.
func sample(counts map[int]int) *hist.Histogram {
	h := hist.New()
	for us, n := range counts {
		for range n {
			h.Record(time.Duration(us)*time.Microsecond + 500)
		}
	}
	return h
}

func result() *load.Result {
	r := &load.Result{
		Seconds: 1.000_012, Requests: 20_000, Bytes: 2_500_000, Statuses: map[int]uint64{200: 20_000},
		Service: sample(map[int]int{50: 10, 90: 5, 150: 2, 200: 1, 201: 1, 350: 1, 950: 1}),
		Windows: [][]uint32{{999, 1001}, {1001, 1200, 3}},
	}
	r.Latency = r.Service
	return r
}

func reportOf(t *testing.T, line string, r *load.Result) string {
	t.Helper()
	c, err := Parse(strings.Fields(line))
	testkit.Must(t, err)
	var out, stderr strings.Builder
	c.Begin(&out, &stderr)
	if err := c.Report(&out, &stderr, r); err != nil || stderr.Len() > 0 {
		t.Errorf("%v, on stderr %q", err, stderr.String())
	}
	return out.String()
}

// The rows are computed by wrk 4.2.0's stats.c and units.c, compiled, from the same samples with an
// interval of 100 µs.
func TestReportIsWrks(t *testing.T) {
	r := result()
	r.Windows[1] = r.Windows[1][:2]
	got := reportOf(t, "-c2 -t2 -d1s --latency http://127.0.0.1:8080/index.html", r)
	want := `Running 1s test @ http://127.0.0.1:8080/index.html
  2 threads and 2 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   232.88us  253.73us   0.95ms   84.38%
    Req/Sec    10.50k     1.00k   12.00k    75.00%
  Latency Distribution
     50%  150.00us
     75%  350.00us
     90%  650.00us
     99%    0.95ms
  20000 requests in 1.00s, 2.38MB read
Requests/sec:  19999.76
Transfer/sec:      2.38MB
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestReportCountsErrors(t *testing.T) {
	r := result()
	r.Statuses = map[int]uint64{200: 1, 302: 2, 404: 30, 500: 4}
	r.Errors = load.Errors{Connect: 1, Read: 2, Write: 3, Timeout: 4, Status: 34}
	r.Service.Record(2*time.Second + time.Millisecond)
	r.Service.Record(1990 * time.Millisecond)
	got := reportOf(t, "http://127.0.0.1:8080", r)
	for _, want := range []string{
		"Running 10s test @ http://127.0.0.1:8080\n  2 threads and 10 connections\n",
		" 1.99s ", // the one that is not longer than the timeout is a sample
		"\n  Socket errors: connect 1, read 2, write 3, timeout 5\n  Non-2xx or 3xx responses: 34\nRequests/sec: ",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwithout %q", got, want)
		}
	}
}

// The report is that of wrk 1.0.0 before its first sample, except the latency, which wrk then
// lacks.
func TestReportIsWrk1s(t *testing.T) {
	r := result()
	r.Seconds, r.Windows = 0.0246, [][]uint32{{333}, {333}, {333}}
	r.Service.Record(3 * time.Second) // stays a sample, as it does there
	got := reportOf(t, "-t3 -c10 -r1k http://127.0.0.1:8080/", r)
	for _, want := range []string{
		"Making 1000 requests to http://127.0.0.1:8080/\n  3 threads and 10 connections\n  Thread Stats   Avg      Stdev     Max   +/- Stdev\n",
		" 3.00s ",
		"\n    Req/Sec     0.00      0.00     0.00      -nan%\n",
		"\n  Socket errors: connect 0, read 0, write 0, timeout 1\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwithout %q", got, want)
		}
	}
}

// The report is that of wrk 4.1.0 without responses.
func TestReportWithoutResponses(t *testing.T) {
	got := reportOf(t, "-d2s http://127.0.0.1:8080/",
		&load.Result{Seconds: 2, Service: hist.New(), Latency: hist.New()})
	want := `Running 2s test @ http://127.0.0.1:8080/
  2 threads and 10 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     0.00us    0.00us   0.00us    -nan%
    Req/Sec     0.00      0.00     0.00      -nan%
  0 requests in 2.00s, 0.00B read
Requests/sec:      0.00
Transfer/sec:       0.00B
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func footnotesOf(t *testing.T, line string, r *load.Result) []string {
	t.Helper()
	c, err := Parse(append(strings.Fields(line), "http://127.0.0.1/"))
	testkit.Must(t, err)
	return c.Footnotes(r)
}

func TestFootnotesExplainMisleadingFigures(t *testing.T) {
	troubled := result()
	troubled.Service.Record(2300 * time.Millisecond)
	troubled.Latency = hist.New()
	troubled.Latency.Merge(troubled.Service)
	troubled.Latency.Record(5 * time.Second)
	troubled.Latency.Record(time.Second)
	troubled.NoResponse = 2
	troubled.Errors.Connect = 7
	troubled.Generator.Busy = 0.97
	quiet := result()
	quiet.Requests = 0
	for _, c := range []struct {
		line string
		r    *load.Result
		want []string
	}{
		{"-t2 -c25", quiet, []string{"1 of 25 connections were not opened: each of 2 threads has 12, as in wrk"}},
		{"-t2 -c20", quiet, nil},
		// The uncorrected figures are from wrk's stats.c.
		{"-t2 -c2", result(), []string{
			"11 of 32 latency samples were not measured: wrk adds them for requests that it assumes were delayed; without them Avg 140.52us, 50% 90.00us, 75% 150.00us, 90% 201.00us, 99% 0.95ms",
			"Req/Sec is the rate of one thread: multiply it by 2",
		}},
		{"-t1 -c20", troubled, []string{
			"1 responses took longer than 2s, up to 2.30s: they count as timeouts and are excluded from latency",
			"2 requests without a response at the end had waited longer than 99% of the others took, 1 of them longer than 2s: wrk does not count these",
			"7 connections could not be opened: wrk would count these as read errors",
			"the generator was busy 97% of the time: it, not the server, may have limited the rate",
		}},
		{"-t3 -c3 -r 10", quiet, []string{
			"1 of 10 requests were not sent: each of 3 threads sends 3, as in wrk 1.0",
			"latency covers all requests; wrk 1.0 samples about one each tenth of a second; Req/Sec is the rate since the start, rounded down to thousands, as in wrk 1.0",
		}},
	} {
		if got := footnotesOf(t, c.line, c.r); !slices.Equal(got, c.want) {
			t.Errorf("%s: got\n%s\nwant\n%s", c.line, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
}
