package wrk

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/dialect"
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
	c := testkit.Value(Parse(strings.Fields(line)))(t)
	var out, stderr strings.Builder
	c.Begin(&out, &stderr)
	testkit.Must(t, c.Report(&out, &stderr, r))
	testkit.Equal(t, stderr.String(), "", "stderr")
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
	testkit.Equal(t, got, want)
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
		testkit.Contains(t, got, want)
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
		testkit.Contains(t, got, want)
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
	testkit.Equal(t, got, want)
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
		command := testkit.Value(Parse(strings.Fields(c.line + " http://127.0.0.1/")))(t)
		testkit.Equal(t, command.Footnotes(c.r), c.want, c.line)
	}
}

func TestFlagsAreParsed(t *testing.T) {
	plain := Command{url: "http://h:1/", connections: 10, threads: 2, duration: 10 * time.Second,
		timeout: 2 * time.Second}
	for line, change := range map[string]func(c *Command){
		"http://h:1/": func(*Command) {},
		"-t100 -c5000 -d30s http://h:1/": func(c *Command) {
			c.threads, c.connections, c.duration = 100, 5000, 30*time.Second
		},
		"http://h:1/ --threads 1 --connect=1k": func(c *Command) { c.threads, c.connections = 1, 1000 },
		"-d 2m -T 1h http://h:1/":              func(c *Command) { c.duration, c.timeout = 2*time.Minute, time.Hour },
		"--timeout 0 -Lv -d1 http://h:1/": func(c *Command) {
			c.timeout, c.latency, c.version, c.duration = 0, true, true, time.Second
		},
		"-t32 -c32 -r10k http://h:1/": func(c *Command) {
			c.threads, c.connections, c.requests, c.duration = 32, 32, 10_000, 0
		},
		"--requests=2M http://h:1/": func(c *Command) { c.requests, c.duration = 2_000_000, 0 },
		"-H A:1 -H B:2 --header A:3 http://h:1": func(c *Command) {
			c.header, c.url = []string{"B:2", "A:3"}, "http://h:1"
		},
	} {
		want := plain
		change(&want)
		got := testkit.Value(Parse(strings.Fields(line)))(t)
		want.hasDuration, want.isV1 = got.hasDuration, want.requests > 0
		testkit.Equal(t, *got, want, line)
	}
}

func TestInvalidCommandLinesAreRejected(t *testing.T) {
	for line, want := range map[string]string{
		"":                               "missing URL",
		"-x http://h/":                   `unknown flag "-x"; wrk's unsupported flags are -s, -R, -U, -B`,
		"-s post.lua http://h/":          "flag -s is not supported",
		"--script=x http://h/":           "flag --script is not supported",
		"-R2000 http://h/":               "flag -R is not supported",
		"--u_latency http://h/":          "flag --u_latency is not supported",
		"-c1 http://h/":                  "number of connections must be >= threads",
		"-c0 http://h/":                  "number of connections must be >= threads",
		"-t0 http://h/":                  "above 0",
		"-d0 http://h/":                  "above 0",
		"-r0 http://h/":                  "above 0",
		"-r1 http://h/":                  "at least as many requests as threads",
		"-r1k -d1s http://h/":            "mutually exclusive",
		"-d5x http://h/":                 `unknown unit "x"`,
		"-d9999h http://h/":              "at most one year",
		"-c http://h/":                   `"http://h/": want an integer`,
		"-t6k -c10k http://h/":           "at most 5000 threads",
		"-H foo http://h/":               `want "Name: value"`,
		"foo":                            "invalid URL: foo",
		"ftp://h/":                       "invalid URL: ftp://h/",
		"127.0.0.1:80/":                  "invalid URL: 127.0.0.1:80/",
		"http://h/ http://i/":            "want one URL",
		"-c10 http://h/ -- -d arg --any": "want one URL",
	} {
		_, err := Parse(strings.Fields(line))
		e, ok := errors.AsType[*dialect.Exit](dialect.Usage("wrk", err, 1))
		if !ok || !strings.Contains(e.Stderr, want) || e.Code != 1 || e.Stdout != "" {
			t.Errorf("%q: got %+v, want %q", line, err, want)
		}
	}
}

func TestHelpAndVersionEndTheCommand(t *testing.T) {
	for line, want := range map[string]string{
		"-h":                   usageText,
		"--help http://h/":     usageText,
		"-v":                   versionText + usageText,
		"--version -c 10 -d 1": versionText + usageText,
	} {
		_, err := Parse(strings.Fields(line))
		testkit.Equal(t, dialect.Usage("wrk", err, 1), error(&dialect.Exit{Code: 1, Stdout: want}), line)
	}
}

func TestFlagsSetThePlan(t *testing.T) {
	c := testkit.Value(Parse(strings.Fields("-t32 -c100 -r10k -H A:1 https://h:1/")))(t)
	p := c.Plan(nil)
	if p.Connections != 96 || p.Threads != 32 || p.Requests != 9984 || p.Duration != 0 || p.URL != "https://h:1/" ||
		len(p.Header) != 1 || !p.TLS.InsecureSkipVerify {
		t.Errorf("got %+v", p)
	}
	if p.Timeout < time.Minute {
		t.Errorf("requests are given up after %v: wrk waits for them", p.Timeout)
	}
}

// The expectations are computed by wrk 4.2.0's stats.c, compiled, from the same samples.
func TestStatisticsMatchWrk(t *testing.T) {
	for _, c := range []struct {
		d           distribution
		count       int64
		mean, stdev float64
		within      string
		percentiles [4]int64
	}{
		// 201 adds 101; 350 adds 250 and 150; 1234 adds 1134, 1034 and so on to 134; 200 adds none,
		// since 100 is not above the interval.
		{distribution{[]bar{{50, 10}, {90, 5}, {150, 2}, {200, 1}, {201, 1}, {350, 1}, {1234, 1}}, 100}, 35, 306,
			350.445683, "82.86", [4]int64{150, 434, 934, 1234}},
		{distribution{[]bar{{849, 1}, {850, 3}}, 0}, 4, 849.75, 0.5, "75.00", [4]int64{850, 850, 850, 850}},
		{distribution{[]bar{{900, 990}, {1100, 8}, {9000, 1}, {1500000, 1}}, 1000}, 2505, 449777.56487, 497343.261485,
			"77.92", [4]int64{248000, 874000, 1250000, 1475000}},
		{distribution{}, 0, 0, 0, "-nan", [4]int64{}},
		{distribution{[]bar{{7, 1}}, 0}, 1, 7, 0, "100.00", [4]int64{7, 7, 7, 7}},
	} {
		mean := c.d.mean()
		stdev := c.d.stdev(mean)
		if c.d.count() != c.count || math.Abs(mean-c.mean) > 1e-5 || math.Abs(stdev-c.stdev) > 1e-5 {
			t.Errorf("%v: got %d samples, %v ± %v, want %d, %v ± %v", c.d, c.d.count(), mean, stdev, c.count, c.mean,
				c.stdev)
		}
		testkit.Equal(t, percent(c.d.within(mean, stdev)), c.within, c.d)
		for i, p := range []float64{50, 75, 90, 99} {
			testkit.Equal(t, c.d.percentile(p), c.percentiles[i], c.d, p)
		}
	}
}

// The formulas give the same results as phantoms stored as samples.
func TestPhantomFormulasMatchStoredPhantoms(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 5 {
		d := distribution{interval: 1 + rnd.Int64N(50)}
		var all []int64
		for value := int64(0); len(d.bars) < 20; value += 1 + rnd.Int64N(60) {
			b := bar{value, 1 + rnd.Int64N(3)}
			d.bars = append(d.bars, b)
			for range b.count {
				all = append(all, value)
				for m := value - d.interval; value >= 2*d.interval && m > d.interval; m -= d.interval {
					all = append(all, m)
				}
			}
		}
		slices.Sort(all)
		plain := distribution{}
		for _, value := range all {
			plain.bars = append(plain.bars, bar{value, 1})
		}
		mean := plain.mean()
		same := d.count() == int64(len(all)) && math.Abs(d.mean()-mean) < 1e-9*mean &&
			math.Abs(d.stdev(mean)-plain.stdev(mean)) < 1e-9*mean
		for x := int64(-3); x <= d.max()+1; x++ {
			same = same && d.upTo(x) == plain.upTo(x)
		}
		for p := range 100 {
			same = same && d.percentile(float64(p)) == plain.percentile(float64(p))
		}
		if !same {
			t.Fatalf("%v is not as %v", d, all)
		}
	}
}

func TestRatesAreThoseOfThreads(t *testing.T) {
	// The second thread had 5 responses in three tenths of a second. The last windows are
	// incomplete.
	r := &load.Result{Seconds: 0.45, Windows: [][]uint32{{10, 20, 10, 33, 7}, {0, 0, 5, 10, 99}}}
	testkit.Equal(t, fmt.Sprint((&Command{}).rates(r).bars), "[{16 1} {100 3} {200 1} {330 1}]")
	// 3150 in 200 ms are 15.75 per millisecond, in 300 ms 10.5, in 400 ms 7.9.
	r = &load.Result{Seconds: 0.4, Windows: [][]uint32{{3000, 150, 0, 0}, {0, 0, 5, 10}}}
	testkit.Equal(t, fmt.Sprint((&Command{isV1: true}).rates(r).bars),
		"[{0 4} {7000 1} {10000 1} {15000 1} {30000 1}]", "wrk 1.0")
}

// The expectations are computed by wrk 4.2.0's units.c, compiled.
func TestUnitsMatchWrk(t *testing.T) {
	for n, want := range map[float64]string{
		0: "0.00us", 1: "1.00us", 849: "849.00us", 850: "0.85ms", 999.5: "1.00ms", 84999: "85.00ms", 850000: "850.00ms",
		999999: "1000.00ms",
		1e6:    "1.00s", 50999999: "51.00s", 51e6: "0.85m", 3600e6: "60.00m", 7200e6: "120.00m",
	} {
		testkit.Equal(t, microseconds(n), want, n)
	}
	for n, want := range map[time.Duration]string{
		1: "1s", 30: "30s", 50: "50s", 51: "1m", 55: "1m", 60: "1m", 90: "2m", 100: "2m", 3060: "51m", 7200: "120m",
	} {
		testkit.Equal(t, seconds(n*time.Second), want, n)
	}
	for n, want := range map[float64][2]string{
		0: {"0.00", "0.00"}, 870: {"870.00", "0.87k"}, 871: {"0.85K", "0.87k"}, 1023: {"1.00K", "1.02k"},
		1024 * 1024 * 0.85: {"0.85M", "0.89M"}, 3.42 * (1 << 30): {"3.42G", "3.67G"}, 1e15: {"909.49T", "1000.00T"},
		1e18: {"909494.70T", "1000000.00T"},
	} {
		testkit.Equal(t, [2]string{binary(n), metric(n)}, want, n)
	}
}

func TestColumnsAlignNumbers(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"1.02ms", 8, "  1.02ms"},
		{"1.50s", 9, "   1.50s "},
		{"61.13k", 8, " 61.13k "},
		{"0.00", 10, "    0.00  "},
		{"1234567.00", 8, "123456  "}, // cut, as by the precision of wrk's %*.*s
	} {
		testkit.Equal(t, column(c.text, c.width), c.want, c.text)
	}
}

func TestUnitsAreParsed(t *testing.T) {
	for text, want := range map[string]uint64{"10": 10, "10k": 10_000, "2M": 2_000_000, "1G": 1_000_000_000,
		"3 k": 3000, "0": 0} {
		testkit.Equal(t, testkit.Value(numberUnits().parse(text))(t), want, text)
	}
	for text, want := range map[string]uint64{"2": 2, "2s": 2, "2S": 2, "2m": 120, "2h": 7200} {
		testkit.Equal(t, testkit.Value(secondUnits().parse(text))(t), want, text)
	}
	for _, text := range []string{"", "k", "-1", "1.5k", "1kk", "1x", "2ms", "99999999999999999999", "99999999999P"} {
		testkit.Fails(numberUnits().parse(text))(t, "", text)
	}
	testkit.Fails(secondUnits().parse("1d"))(t, "", "1d")
}
