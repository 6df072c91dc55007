package ab_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/dialect"
	"github.com/tarehq/tare/internal/dialect/ab"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
)

// sample returns a sample on a kept connection. Times are in microseconds.
func sample(connect, sent, first, done int64) load.Sample {
	at := func(micros int64) time.Duration { return time.Duration(micros) * time.Microsecond }
	return load.Sample{Connect: at(connect), Due: at(sent), Sent: at(sent), First: at(first), Done: at(done),
		Status: 200, Kept: true, Body: 60, Bytes: 160}
}

// five returns samples with totals of 22, 10, 8, 12 and 14.6 ms, and waits of 10, 4, 1, 5 and 6.4
// ms.
func five() *load.Result {
	return &load.Result{
		Seconds: 0.07, Requests: 5, SentBytes: 500, Head: "HTTP/1.0 200 OK\r\nServer: nginx/1.22 (Debian)\r\n\r\n",
		Samples: []load.Sample{
			sample(2000, 2000, 12000, 22000), sample(0, 22000, 26000, 32000), sample(0, 32000, 33000, 40000),
			sample(0, 40000, 45000, 52000), sample(0, 52000, 58400, 66600),
		},
	}
}

// report writes a command's report; an exit code is returned as an error.
func report(t *testing.T, r *load.Result, line string) (stdout, stderr string, err error) {
	t.Helper()
	c := testkit.Value(ab.Parse(strings.Fields(line)))(t)
	var out, errs strings.Builder
	c.Begin(&out, &errs)
	err = c.Report(&out, &errs, r)
	return out.String(), errs.String(), err
}

func TestReportIsABs(t *testing.T) {
	stdout, stderr, err := report(t, five(), "-k -c 2 -n 5 http://127.0.0.1:8080/hello")
	const want = `This is ApacheBench, Version 2.3 <$Revision$>
Copyright 1996 Adam Twiss, Zeus Technology Ltd, http://www.zeustech.net/
Licensed to The Apache Software Foundation, http://www.apache.org/

Benchmarking 127.0.0.1 (be patient).....done


Server Software:        nginx/1.22
Server Hostname:        127.0.0.1
Server Port:            8080

Document Path:          /hello
Document Length:        60 bytes

Concurrency Level:      2
Time taken for tests:   0.067 seconds
Complete requests:      5
Failed requests:        0
Keep-Alive requests:    5
Total transferred:      800 bytes
HTML transferred:       300 bytes
Requests per second:    75.08 [#/sec] (mean)
Time per request:       26.640 [ms] (mean)
Time per request:       13.320 [ms] (mean, across all concurrent requests)
Transfer rate:          11.73 [Kbytes/sec] received

Connection Times (ms)
              min  mean[+/-sd] median   max
Connect:        0    0   0.9      0       2
Processing:     8   13   4.7     13      20
Waiting:        1    5   3.3      6      10
Total:          8   13   5.4     13      22

Percentage of the requests served within a certain time (ms)
  50%     12
  66%     15
  75%     15
  80%     22
  90%     22
  95%     22
  98%     22
  99%     22
 100%     22 (longest request)
`
	if stdout != want || stderr != "" || err != nil {
		t.Errorf("got %v, on stderr %q, and\n%s\nwant\n%s", err, stderr, stdout, want)
	}
}

func TestReportWithFewerColumns(t *testing.T) {
	stdout, _, _ := report(t, five(), "-d -S -l -c 2 -n 5 http://127.0.0.1:8080/hello")
	_, times, _ := strings.Cut(stdout, "Connection Times (ms)\n")
	const want = `              min   avg   max
Connect:        0     0    2
Processing:     8    13   20
Waiting:        1     5   10
Total:          8    13   22
`
	if times != want || !strings.Contains(stdout, "Document Length:        Variable\n") {
		t.Errorf("got\n%s", stdout)
	}
}

// ab warns about a mean far from the median. Nine samples of 1 ms and one of 1.45 ms have a
// deviation of 0.1 ms, and means of 1 ms.
func TestMeanFarFromMedianIsWarnedAbout(t *testing.T) {
	r := &load.Result{Seconds: 1}
	for range 9 {
		r.Samples = append(r.Samples, sample(0, 0, 480, 480))
	}
	r.Samples = append(r.Samples, sample(0, 0, 700, 700))
	// The mean of 502 µs is printed as 1, the median is 0, and the deviation 0.07 ms.
	stdout, _, _ := report(t, r, "-c 1 -n 10 http://h/")
	const want = `Total:          0    1   0.1      0       1
ERROR: The median and mean for the processing time are more than twice the standard
       deviation apart. These results are NOT reliable.
ERROR: The median and mean for the waiting time are more than twice the standard
       deviation apart. These results are NOT reliable.
ERROR: The median and mean for the total time are more than twice the standard
       deviation apart. These results are NOT reliable.

`
	testkit.Contains(t, stdout, want)
	r.Samples[9] = sample(0, 0, 2700, 2700) // mean 702 us, deviation 0.70 ms
	stdout, _, _ = report(t, r, "-c 1 -n 10 http://h/")
	testkit.Contains(t, stdout, "WARNING: The median and mean for the total time are not within a normal deviation\n"+
		"        These results are probably not that reliable.\n")
}

func TestFailuresAreCountedAsByAB(t *testing.T) {
	failing := func(f load.Failure, first string) *load.Result {
		r := five()
		r.Samples[2] = load.Sample{Sent: 30 * time.Millisecond, Done: 40 * time.Millisecond, Failure: f}
		r.Errors.First = first
		return r
	}
	other := five()
	other.Samples[1].Body, other.Samples[3].Status, other.Samples[3].Failure = 61, 404, load.FailedStatus
	silent := failing(load.FailedTimeout, "")
	silent.Samples[2].Sent = silent.Samples[1].Done
	const resetText, refusedText = "read: connection reset by peer", "connect: connection refused"
	for _, c := range []struct {
		name, flags string
		r           *load.Result
		want        string // somewhere on stdout
		stderr      string
		code        int
	}{
		{"another length, another status", "", other,
			"Failed requests:        1\n   (Connect: 0, Receive: 0, Length: 1, Exceptions: 0)\nNon-2xx responses:      1\nTotal", "", 0},
		{"any length", "-l", other, "Failed requests:        0\nNon-2xx", "", 0},
		{"no response", "", failing(load.FailedRead, "read: connection closed before a response"),
			"Complete requests:      5\nFailed requests:        1\n   (Connect: 0, Receive: 0, Length: 1, Exceptions: 0)\n", "", 0},
		{"reset", "", failing(load.FailedRead, resetText), "(be patient)...Total of 2 requests completed\n",
			"apr_socket_recv: Connection reset by peer (104)\n", 104},
		{"reset, and on", "-r", failing(load.FailedRead, resetText),
			"Complete requests:      5\nFailed requests:        3\n   (Connect: 0, Receive: 1, Length: 1, Exceptions: 1)\n", "", 0},
		{"refused", "", failing(load.FailedConnect, refusedText), "Total of 2 requests completed\n",
			"apr_socket_recv: Connection refused (111)\n", 111},
		{"no ports", "", failing(load.FailedConnect, "connect: cannot assign requested address"),
			"Total of 2 requests completed\n",
			"\nTest aborted after 10 failures\n\napr_socket_connect(): Cannot assign requested address (99)\n", 99},
		{"unsent", "", failing(load.FailedWrite, "write: broken pipe"),
			"Failed requests:        1\n   (Connect: 0, Receive: 0, Length: 1, Exceptions: 0)\nWrite errors:           1\n", "", 0},
		{"unanswered", "", failing(load.FailedTimeout, "no response in 30s"), "Total of 4 requests completed\n",
			"apr_pollset_poll: The timeout specified has expired (70007)\n", 119},
		{"unanswered, nothing else", "", silent, "Total of 2 requests completed\n",
			"apr_pollset_poll: The timeout specified has expired (70007)\n", 119},
		{"unanswered in a time", "-t 1", failing(load.FailedTimeout, "no response in 30s"),
			"Complete requests:      4\nFailed requests:        0\n", "Finished 4 requests\n", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := "-n 5"
			if strings.HasPrefix(c.flags, "-t") {
				n = ""
			}
			stdout, stderr, err := report(t, c.r, n+" "+c.flags+" -c 2 http://h/")
			exited, _ := errors.AsType[*dialect.Exit](err)
			if !strings.Contains(stdout, c.want) || stderr != c.stderr || (err != nil) != (c.code != 0) || err != nil &&
				exited.Code != c.code {
				t.Errorf("got %v, on stderr %q, and\n%s", err, stderr, stdout)
			}
		})
	}
}

func TestProgressIsPrintedInTenths(t *testing.T) {
	c := testkit.Value(ab.Parse([]string{"-n", "1005", "http://h/"}))(t)
	var stdout, stderr strings.Builder
	c.Begin(&stdout, &stderr)
	p := c.Plan(nil)
	p.Trace.Progress(load.Progress{Measuring: false, Requests: 500})
	p.Trace.Progress(load.Progress{Measuring: true, Requests: 99})
	p.Trace.Progress(load.Progress{Measuring: true, Requests: 320})
	p.Trace.Progress(load.Progress{Measuring: true, Requests: 330})
	testkit.Equal(t, stderr.String(), "Completed 100 requests\nCompleted 200 requests\nCompleted 300 requests\n")
	if err := c.Report(&stdout, &stderr, five()); err != nil ||
		!strings.HasSuffix(stderr.String(), "300 requests\nFinished 5 requests\n") {
		t.Errorf("got %v, %q", err, &stderr)
	}
	testkit.Contains(t, stdout.String(), "(be patient)\n\n\nServer")
}

func TestCSVAndPlotFilesAreWritten(t *testing.T) {
	dir := t.TempDir()
	csv, plot := filepath.Join(dir, "a.csv"), filepath.Join(dir, "a.tsv")
	if _, _, err := report(t, five(), "-n 5 -e "+csv+" -g "+plot+" http://h/"); err != nil {
		t.Fatal(err)
	}
	lines := func(name string) []string {
		b := testkit.Value(os.ReadFile(name))(t)
		return strings.Split(string(b), "\n")
	}
	got := lines(csv)
	if len(got) != 103 || got[0] != "Percentage served,Time in ms" || got[1] != "0,8.000" || got[10] != "9,8.000" ||
		got[11] != "10,10.000" || got[51] != "50,14.600" || got[101] != "100,22.000" {
		t.Errorf("got %q", got)
	}
	got = lines(plot)
	if len(got) != 7 || got[0] != "starttime\tseconds\tctime\tdtime\tttime\twait" ||
		!strings.HasSuffix(got[1], "\t0\t8\t8\t1") || !strings.HasSuffix(got[5], "\t2\t20\t22\t10") {
		t.Errorf("got %q", got)
	}
	if _, _, err := report(t, five(), "-n 5 -e "+dir+" http://h/"); err == nil ||
		!strings.Contains(err.Error(), "ab: write the CSV file of -e: open ") {
		t.Errorf("got %v", err)
	}
}

func TestFootnotesExplainMisleadingFigures(t *testing.T) {
	notes := func(r *load.Result, line string) string {
		c := testkit.Value(ab.Parse(strings.Fields(line)))(t)
		return strings.Join(c.Footnotes(r), "\n") + "\n"
	}
	r := five()
	r.Samples[4].Kept = false
	got := notes(r, "-k -c 2 -n 5 http://h/")
	for _, want := range []string{
		"is 2 connections x 0.067 s / 5 requests, not a measurement; requests took 13.320 ms on average\n",
		"4 of 5 responses kept their connection",
		"requests were HTTP/1.0",
	} {
		testkit.Contains(t, got, want)
	}
	testkit.Lacks(t, got, "-k is missing")
	if got = notes(five(), "-c 1 -n 5 http://h/"); !strings.Contains(got, "-k is missing") ||
		strings.Contains(got, "connections x") {
		t.Errorf("got\n%s", got)
	}
	r = five()
	r.Errors.Read = 2
	testkit.Contains(t, notes(r, "-k -n 5 http://h/"), "2 responses were malformed or incomplete")
	r = five()
	r.Generator.Busy = 1
	if got = notes(r, "-k -n 5 http://h/"); !strings.Contains(got, "the generator was busy 100% of the time") ||
		strings.Contains(got, "kept their") {
		t.Errorf("got\n%s", got)
	}
}

func TestFlagsSetThePlan(t *testing.T) {
	dir := t.TempDir()
	body := filepath.Join(dir, "body")
	testkit.Must(t, os.WriteFile(body, []byte("a=b\n"), 0o644))
	for _, c := range []struct {
		name, line string
		ok         func(p *load.Plan) bool
	}{
		{"one request", "localhost/", func(p *load.Plan) bool {
			return p.URL == "http://localhost:80/" && p.Connections == 1 && p.Requests == 1 && p.Duration == 0 &&
				p.Version == load.HTTP10 && p.PerConnection == 0 && p.Timeout == 30*time.Second
		}},
		{"a time", "-n 7 -t 3 http://h/", func(p *load.Plan) bool {
			return p.Duration == 3*time.Second && p.Requests == 50000
		}},
		{"a time and then a number", "-t 3 -n 70000 http://h/", func(p *load.Plan) bool {
			return p.Duration == 3*time.Second && p.Requests == 70000 && p.Samples == 70000
		}},
		{"POST", "-T text/csv -p " + body + " http://h/", func(p *load.Plan) bool {
			return p.Method == "POST" && p.Body == "a=b\n" &&
				strings.HasPrefix(strings.Join(p.Header, "|"), "Content-length: 4|Content-type: text/csv|Host: h|")
		}},
		{"PUT with another method", "-u " + body + " -m PATCH http://h/", func(p *load.Plan) bool {
			return p.Method == "PATCH" && p.Body == "a=b\n" &&
				strings.HasPrefix(strings.Join(p.Header, "|"), "Content-length: 4|Content-type: text/plain|Host: h|")
		}},
		{"HEAD", "-i http://h/", func(p *load.Plan) bool { return p.Method == "HEAD" }},
		{"header", "-k -H X-A:b -A u:p -C a=1 -H Accept:text/html -H Host:other http://h/", func(p *load.Plan) bool {
			return strings.Join(p.Header, "|") == "Connection: Keep-Alive|Cookie: a=1|Authorization: Basic dTpw|X-A:b|Accept:text/html|Host:other|User-Agent: ApacheBench/2.3"
		}},
		{"IPv6", "http://[::1]:81/", func(p *load.Plan) bool {
			return p.URL == "http://[::1]:81/" && strings.HasPrefix(p.Header[0], "Host: [::1]:81")
		}},
		{"source and timeout", "-B 127.0.0.2 -s 3 http://h/", func(p *load.Plan) bool {
			return len(p.Sources) == 1 && p.Sources[0].String() == "127.0.0.2" && p.Timeout == 3*time.Second
		}},
		{"TLS", "-f tls1.2 -H Host:name https://127.0.0.1/", func(p *load.Plan) bool {
			return p.URL == "https://127.0.0.1:443/" && p.TLS.InsecureSkipVerify && p.TLS.ServerName == "name" &&
				p.TLS.MinVersion == p.TLS.MaxVersion && p.TLS.MinVersion == 0x0303
		}},
	} {
		if p := testkit.Value(ab.Parse(strings.Fields(c.line)))(t).Plan(nil); !c.ok(&p) {
			t.Errorf("%s: %s: got %+v", c.name, c.line, p)
		}
	}
}

func TestInvalidCommandLinesAreRejected(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"", "want one URL after all flags, got 0"},
		{"http://h/ -n 5", "want one URL after all flags, got 3"},
		{"http://h", "want a path after the host, at least /"},
		{"http:///x", "want a host"},
		{"http://h:0/x", `port "0": want an integer from 1 to 65535`},
		{"-c 2 http://h/", "concurrency 2 exceeds the number of requests, 1"},
		{"-n 0 http://h/", `flag -n: "0": want an integer from 1 to 100000000`},
		{"-c 20001 -n 30000 http://h/", "from 1 to 20000"},
		{"-n 1 -X proxy:80 http://h/", "flag -X is not supported; ab's unsupported flags are -b, -X, -I, -Z"},
		{"-y", "flag -y: missing value"},
		{"-Q http://h/", `unknown flag "-Q"; ab's unsupported flags are`},
		{"-v 2 http://h/", `flag -v: "2": want an integer from 0 to 1`},
		{"-i -p /dev/null http://h/", "flag -p: cannot mix POST with other methods"},
		{"-p /nonexistent http://h/", "flag -p: open /nonexistent:"},
		{"-f SSL3 http://h/", `"SSL3": want TLS1,`},
	} {
		testkit.Fails(ab.Parse(strings.Fields(c.line)))(t, c.want, c.line)
	}
}
