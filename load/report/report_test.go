package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/perf/benchfmt"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/hist"
)

// sample returns a run of 3.5 seconds with 10,000 requests per second, of 1 ms and a tail.
func sample(t *testing.T) *Run {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 1))
	r := &Run{
		Result: load.Result{
			URL: "http://127.0.0.1:8080/api/users?a=b", Connections: 64, Threads: 2, Seconds: 3.5,
			Statuses: map[int]uint64{200: 34990, 503: 10},
			Errors:   load.Errors{Status: 10, Connect: 2, First: "status 503"},
			Opened:   64, Connects: 2, Head: "HTTP/1.1 200 OK\r\nServer: <b>\r\n\r\n",
			Latency: hist.New(), Service: hist.New(), FirstByte: hist.New(), Connect: hist.New(), Handshake: hist.New(),
			Generator: load.Generator{UserSeconds: 0.5, SysSeconds: 1.25, Busy: 0.25},
		},
		About: About{
			Started: time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC), Tool: "v1.0",
			Flags:   map[string]string{"connections": "64"},
			Machine: Machine{CPU: "A Processor", Cores: 2, Memory: 8e9, Kernel: "linux 6"},
		},
	}
	for _, n := range []int{10000, 10000, 10000, 5000} {
		second := hist.New()
		for range n {
			d := time.Millisecond + time.Duration(random.ExpFloat64()*2e5)
			second.Record(d)
			r.FirstByte.Record(d / 2)
		}
		packed := testkit.Value(second.Pack())(t)
		r.Timeline = append(r.Timeline, load.Second{Requests: uint64(n), Latency: packed})
		r.Latency.Merge(second)
		r.Service.Merge(second)
		r.Requests += uint64(n)
	}
	r.Bytes, r.BodyBytes, r.SentBytes = 120*r.Requests, 5*r.Requests, 80*r.Requests
	r.Connect.Record(300 * time.Microsecond)
	r.Handshake.Record(2 * time.Millisecond)
	return r
}

// opened turns a run into an open loop whose requests waited before they were sent.
func opened(r *Run) *Run {
	r.Due = 35100
	r.NoResponse = 100
	r.Latency.Record(80 * time.Millisecond)
	r.Generator.Lag = hist.New()
	r.Generator.Lag.Record(time.Microsecond)
	return r
}

func text(t *testing.T, r *Run) string {
	t.Helper()
	var b strings.Builder
	testkit.Must(t, r.WriteText(&b))
	return b.String()
}

func wantLines(t *testing.T, text string, patterns ...string) {
	t.Helper()
	for _, pattern := range patterns {
		if !regexp.MustCompile("(?m)" + pattern).MatchString(text) {
			t.Errorf("no line like %s in\n%s", pattern, text)
		}
	}
}

func TestTextReportShowsAllFigures(t *testing.T) {
	wantLines(t, text(t, sample(t)),
		`^http://127.0.0.1:8080/api/users\?a=b$`, `^64 connections, 2 threads, 3.5s, closed loop$`,
		`^ +mean +stdev +min +p50 +p90 +p99 +p99\.9 +max$`,
		`^ *connect +300µs`, `^ *TLS handshake +2ms`, `^ *first byte +\d`, `^ *latency +1\.2ms +\d+µs +1ms +1\.14ms `,
		`^percentiles of latency$`, `^ +50%  +1\.14ms  █+`, `^ +99\.9% `, `^ +99\.99% `, `^ +max  .* █{44}$`,
		`^requests +35000 +10,000/s$`, `^received +4\.2 MB +1\.2 MB/s +5 B of body per request$`, `^sent +2\.8 MB`,
		`^statuses +200: 34990  503: 10$`, `^errors +connect 2  status 10$`,
		`^connections +64 opened before +2 while measuring$`,
		`^generator +25% busy +75% headroom +50µs of CPU time per request$`,
		`^each second +████  10,000 to 10,000 requests/s$`, `^First error: status 503$`,
	)
	if s := text(t, sample(t)); strings.Contains(s, "99.999%") || strings.Contains(s, "since due") {
		t.Errorf("more nines than 35,000 requests tell, or an open loop:\n%s", s)
	}
	r := opened(sample(t))
	r.Generator.Busy = 0.97
	wantLines(t, text(t, r), `, open loop$`, `^ *since sent `, `^ *since due `, `^ *sent late `,
		`^due +35100 +99\.7% with a response +0 in flight at the end$`, `^no response +100 at the end$`,
		`^percentiles of latency: █ since sent, ░ since due \(logarithmic, from 5\d\dµs\)$`, `^ +max +80ms  █+░+$`,
		`^The generator was busy 97% of the time: it, not the server, may have limited the\nrate\.$`)
	lines := strings.Split(text(t, r), "\n")
	testkit.Contains(t, strings.Join(lines[len(lines)-20:], "\n"), "p99.9", "the last 20 lines")
	for _, line := range lines {
		testkit.Between(t, utf8.RuneCountInString(line), 0, 80, "columns of", line)
	}
}

func TestWriteErrorsAreReturned(t *testing.T) {
	r := sample(t)
	for name, write := range map[string]func() error{
		"text": func() error { return r.WriteText(full{}) }, "CSV": func() error { return r.WriteCSV(full{}) },
		"samples":   func() error { return r.WriteSamples(full{}) },
		"HDR log":   func() error { return r.WriteHDRLog(full{}) },
		"benchmark": func() error { return r.WriteBench(full{}) }, "page": func() error { return r.WritePage(full{}) },
	} {
		testkit.Is(t, write(), errFull, name)
	}
}

var errFull = errors.New("full")

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestNumbersAreFormatted(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0µs", 123: "0.123µs", 94463: "94.5µs", 999499: "999µs", 999600: "1ms", 12345678: "12.3ms",
		999600 * time.Microsecond: "1s",
		61 * time.Second:          "61s", 20 * time.Minute: "1200s",
	} {
		testkit.Equal(t, Duration(d), want, d)
	}
	for n, want := range map[float64]string{0: "0", 999: "999", 116154: "116,154", 1e6: "1,000,000"} {
		testkit.Equal(t, Count(n), want, n)
	}
	for n, want := range map[float64]string{0: "0 B", 999.9: "1 KB", 121: "121 B", 4.2e6: "4.2 MB", 5e15: "5e+03 TB"} {
		testkit.Equal(t, sizeText(n), want, n)
	}
}

func TestCSVHasNamedColumns(t *testing.T) {
	var b bytes.Buffer
	testkit.Must(t, sample(t).WriteCSV(&b))
	rows, err := csv.NewReader(&b).ReadAll()
	if err != nil || len(rows) != 2 {
		t.Fatalf("%v, %v", rows, err)
	}
	for name, want := range map[string]string{
		"started": "2026-01-02T03:04:05.678Z", "requests": "35000", "requestsPerSecond": "10000", "errors": "12",
		"connectErrors": "2",
		"latencyMinNs":  "999936", "generatorBusyShare": "0.25", "doubts": "",
	} {
		if i := slices.Index(rows[0], name); i < 0 || rows[1][i] != want {
			t.Errorf("%s: %v", name, rows)
		}
	}
}

func TestSamplesAreRows(t *testing.T) {
	r := sample(t)
	r.Samples = []load.Sample{
		{Connect: 5, Due: 10, Sent: 11, First: 20, Done: 21, Connection: 3, Request: 1, Status: 200, Kept: true,
			Body: 5, Bytes: 120},
		{Due: 30, Sent: 30, Done: 99, Failure: load.FailedTimeout},
	}
	var b bytes.Buffer
	testkit.Must(t, r.WriteSamples(&b))
	const want = "connectNs,dueNs,sentNs,firstNs,doneNs,status,receivedBytes,bodyBytes,failure,connection,request,kept\n" +
		"5,10,11,20,21,200,120,5,,3,1,true\n0,30,30,0,99,0,0,0,timeout,0,0,false\n"
	testkit.Equal(t, b.String(), want)
}

// HdrHistogram tools read the log: each second, its time, and its whole histogram.
func TestHDRLogIsReadByItsLibrary(t *testing.T) {
	r := sample(t)
	r.URL += "\n1,1,1,x"
	r.Timeline = slices.Insert(r.Timeline, 2, load.Second{Requests: 7}) // not kept
	r.Seconds++
	var b bytes.Buffer
	testkit.Must(t, r.WriteHDRLog(&b))
	testkit.Contains(t, b.String(), "\n#[Histogram log format version 1.3]\n")
	in := hdr.NewHistogramLogReader(&b)
	start, total := r.About.Started.UnixMilli(), int64(0)
	for i, want := range []struct{ from, to int64 }{{0, 1000}, {1000, 2000}, {3000, 4000}, {4000, 4500}} {
		h, err := in.NextIntervalHistogram()
		if err != nil || h == nil {
			t.Fatalf("line %d: %v, %v", i, h, err)
		}
		// The reader truncates fractions of milliseconds.
		if from, to := h.StartTimeMs()-start,
			h.EndTimeMs()-start; from < want.from-1 || from > want.from || to < want.to-1 || to > want.to ||
			h.Tag() != "latency" {
			t.Errorf("line %d: %d to %d, tag %q", i, from, to, h.Tag())
		}
		total += h.TotalCount()
		testkit.Between(t, h.ValueAtPercentile(50), 1.1e6, 1.2e6, "p50 of line", i)
	}
	if h, err := in.NextIntervalHistogram(); h != nil || err != nil || total != r.Latency.Count() {
		t.Errorf("after the last: %v, %v; %d of %d", h, err, total, r.Latency.Count())
	}
}

// Several runs in a file are results of one benchmark.
func TestBenchLinesAreReadByBenchfmt(t *testing.T) {
	var b bytes.Buffer
	for range 2 {
		testkit.Must(t, sample(t).WriteBench(&b))
	}
	in := benchfmt.NewReader(&b, "runs")
	results := 0
	for in.Scan() {
		switch rec := in.Result().(type) {
		case *benchfmt.SyntaxError:
			t.Error(rec)
		case *benchfmt.Result:
			results++
			testkit.Equal(t, rec.Name.String(), "Load/path=_api_users/connections=64")
			testkit.Equal(t, rec.Iters, 35000, "iterations")
			for unit, want := range map[string]float64{"req/s": 10000, "B/req": 120, "errors/req": 12.0 / 35000,
				"mean-sec": sample(t).Latency.Mean().Seconds(), "user-sec/req": 0.5 / 35000} {
				if got, ok := rec.Value(unit); !ok || got < want*0.999999 || got > want*1.000001 {
					t.Errorf("%s: %v, %v", unit, got, ok)
				}
			}
		}
	}
	if in.Err() != nil || results != 2 {
		t.Errorf("%d results, %v", results, in.Err())
	}
	if m := in.Units().Get("req/s", "better"); m == nil || m.Value != "higher" {
		t.Errorf("benchstat does not learn that more req/s are better: %v", m)
	}
}

func TestBenchNameIsOneWord(t *testing.T) {
	for url, want := range map[string]string{
		"http://h": "_", "http://h/": "_", "http://h/a/b": "_a_b", "http://h/a%20b?c": "_a%20b",
		"http+unix:///run/s:/a": "_a", "fcgi+unix:///run/s": "_",
		"://": "_",
	} {
		testkit.Equal(t, benchName(url), want, url)
	}
}

// The JSON of a run is read back, also as a load.Result alone.
func TestRunRoundTripsThroughJSON(t *testing.T) {
	r := opened(sample(t))
	b := testkit.Value(json.Marshal(r))(t)
	back := testkit.Value(Read(bytes.NewReader(b)))(t)
	again, err := json.Marshal(back)
	if err != nil || !bytes.Equal(b, again) {
		t.Errorf("%v:\n%.2000s\n%.2000s", err, b, again)
	}
	var plain load.Result
	if err := json.Unmarshal(b, &plain); err != nil || plain.Requests != r.Requests ||
		plain.Timeline[0].Latency.Count != 10000 {
		t.Errorf("%v, %+v", err, plain)
	}
	for _, bad := range []string{"", "{}", "[]", `{"latency":null,"requests":1}`, `{"latency":{"hdrV2":"x"}}`,
		`{"requests":5,"seconds":1}`} {
		testkit.Fails(Read(strings.NewReader(bad)))(t, "", bad)
	}
}

// The page is self-contained: it renders offline, in light and dark mode.
func TestPageIsSelfContained(t *testing.T) {
	fastCGI := sample(t)
	fastCGI.FastCGI = &load.FastCGI{StderrBytes: 2000, Exits: 3, Resent: 4}
	var pages []string
	for _, r := range []*Run{sample(t), opened(sample(t)), long(t), fastCGI} {
		var b bytes.Buffer
		testkit.Must(t, r.WritePage(&b))
		pages = append(pages, b.String())
		for _, bad := range []string{"src=", "<link", "url(", "@import", "<script", "NaN", "Inf", "ZgotmplZ", "%!",
			"<no value>", "Server: <b>"} {
			testkit.Lacks(t, b.String(), bad, "the page")
		}
	}
	if n := len(pages[2]); n > 200_000 || !strings.Contains(pages[2], "Each point combines 9 seconds") {
		t.Errorf("the page of an hour has %d bytes", n)
	}
	testkit.Contains(t, pages[3], "2 KB on STDERR, 3 nonzero exit codes, 4 requests retried")
}

// long returns a run of more than an hour, whose last seconds have no histograms.
func long(t *testing.T) *Run {
	t.Helper()
	r := sample(t)
	second := r.Timeline[0]
	r.Timeline = nil
	for i := range 4000 {
		s := second
		if i >= 3600 {
			s.Latency = hist.Packed{}
		}
		r.Timeline = append(r.Timeline, s)
	}
	r.Seconds = 4000
	return r
}

// joined returns the run of two agents, of which the second was lost.
func joined(t *testing.T) *Run {
	t.Helper()
	r := sample(t)
	lag := hist.New()
	lag.Record(30 * time.Microsecond)
	packed := testkit.Value(r.Latency.Pack())(t)
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
		testkit.Equal(t, strings.Count(page.String(), want), n, want)
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
	testkit.Equal(t, plots[1].Rate.HTML(), plots[0].Rate.HTML(), "30 ms more")
}
