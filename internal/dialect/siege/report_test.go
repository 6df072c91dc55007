package siege_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/dialect/siege"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
)

// result returns 100 responses of 40 ms each, including connecting, except one of 140 and one of 5
// ms: 90 of status 200, 4 of 404 and 6 of 503. Five failures precede them.
func result() *load.Result {
	r := &load.Result{
		Seconds: 2.5, Requests: 100, BodyBytes: 3 << 20, Statuses: map[int]uint64{200: 90, 404: 4, 503: 6},
		Errors: load.Errors{Connect: 2, Read: 1, Timeout: 2, Status: 10, First: "connect: connection refused"},
		Head:   "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n",
	}
	for i := range 100 {
		connect, elapsed := 10*time.Millisecond, 30*time.Millisecond
		switch i {
		case 0:
			elapsed = 130 * time.Millisecond
		case 1:
			connect, elapsed = time.Millisecond, 4*time.Millisecond
		}
		sent := time.Duration(i) * 20 * time.Millisecond
		r.Samples = append(r.Samples, load.Sample{Connect: connect, Sent: sent, Done: sent + elapsed, Status: 200,
			Body: 31457})
	}
	for range 5 {
		r.Samples = append(r.Samples, load.Sample{Done: 2 * time.Second, Failure: load.FailedConnect})
	}
	return r
}

func report(t *testing.T, r *load.Result, line string) (stdout, stderr string) {
	t.Helper()
	c := parse(t, line)
	var out, errs strings.Builder
	c.Begin(&out, &errs)
	testkit.Must(t, c.Report(&out, &errs, r))
	return out.String(), errs.String()
}

// All responses take 98 × 40 + 140 + 5 = 4065 ms; 94 of them are hits.
func TestReportIsSieges(t *testing.T) {
	stdout, stderr := report(t, result(), "-c 2 -t 3s http://h/")
	want := `** SIEGE 4.0.7
** Preparing 2 concurrent users for battle.
The server is now under siege...
Lifting the server siege...
Transactions:		          94 hits
Availability:		       89.52 %
Elapsed time:		        2.50 secs
Data transferred:	        3.00 MB
Response time:		        0.04 secs
Transaction rate:	       37.60 trans/sec
Throughput:		        1.20 MB/sec
Concurrency:		        1.63
Successful transactions:          90
Failed transactions:	          11
Longest transaction:	        0.14
Shortest transaction:	        0.01
 
`
	// 0.005 s is printed as 0.01 or 0.00, whichever is nearer in binary.
	if stderr != want && stderr != strings.Replace(want, "0.01\n", "0.00\n", 1) || stdout != "" {
		t.Errorf("got %q and\n%s\nwant\n%s", stdout, stderr, want)
	}
	if _, stderr = report(t, result(), "-c 5 -r 21 http://h/"); strings.Contains(stderr, "Lifting") {
		t.Errorf("a run that ended by itself was lifted:\n%s", stderr)
	}
}

func TestJSONIsSieges(t *testing.T) {
	stdout, stderr := report(t, result(), "-j -v -c 2 -t 3s http://h/")
	if stderr != "\n" || !strings.HasPrefix(stdout,
		"{\t\"transactions\":\t\t\t          94,\n\t\"availability\":\t\t\t       89.52,\n") ||
		!strings.HasSuffix(stdout, "\n}\n") {
		t.Errorf("got %q and\n%s", stderr, stdout)
	}
	var values map[string]float64
	if err := json.Unmarshal([]byte(stdout), &values); err != nil || len(values) != 12 ||
		values["failed_transactions"] != 11 || values["response_time"] != 0.04 {
		t.Errorf("got %v, %v", err, values)
	}
}

func TestQuietAndVerboseSetTheOutput(t *testing.T) {
	if stdout, stderr := report(t, result(), "-q -c 2 -t 3s http://h/"); stdout != "" || stderr != "" {
		t.Errorf("got %q and %q", stdout, stderr)
	}
	r := result()
	r.Samples[1].Status = 404
	stdout, stderr := report(t, r, "-v -c 2 -t 3s http://h/page")
	lines := strings.Split(stdout, "\n")
	if len(lines) != 101 || lines[0] != "HTTP/1.1 200     0.14 secs:   31457 bytes ==> GET  /page" ||
		!strings.HasPrefix(lines[1], "HTTP/1.1 404     0.0") {
		t.Errorf("got %d lines, %q", len(lines), lines[:2])
	}
	testkit.Contains(t, stderr, "under siege...\n\nLifting")
}

func TestReportWithoutResponses(t *testing.T) {
	_, stderr := report(t, &load.Result{Errors: load.Errors{Connect: 6}}, "-c 2 -r 3 http://h/")
	for _, want := range []string{
		"Transactions:\t\t           0 hits\n", "Availability:\t\t        0.00 %\n",
		"Response time:\t\t        0.00 secs\n",
		"Failed transactions:\t           6\n", "Shortest transaction:\t        0.00\n",
	} {
		testkit.Contains(t, stderr, want)
	}
}

func TestUsersAreLimited(t *testing.T) {
	stdout, stderr := report(t, result(), "-c 300 -r 1 http://h/")
	if !strings.Contains(stdout, "WARNING: The number of users is capped at 255.  To increase this\n") ||
		!strings.Contains(stderr, "Preparing 255 concurrent") {
		t.Errorf("got %q and %q", stdout, stderr)
	}
}

func TestLogLineIsAppended(t *testing.T) {
	name := filepath.Join(t.TempDir(), "siege.log")
	report(t, result(), "-q -l"+name+" -t 3s http://h/")
	report(t, result(), "-q --mark=again --log="+name+" -t 3s http://h/")
	b := testkit.Value(os.ReadFile(name))(t)
	line := `[0-9-]{10} [0-9:]{8},     94,       2\.50,           3,       0\.04,       37\.60,        1\.20,        1\.63,      90,      11\n`
	head := "      Date & Time,  Trans,  Elap Time,  Data Trans,  Resp Time,  Trans Rate,  Throughput,  Concurrent,    OKAY,   Failed\n"
	if !regexp.MustCompile("^" + head + line + `\*\*\*\* again \*\*\*\*\n` + line + "$").Match(b) {
		t.Errorf("got\n%s", b)
	}
	c := parse(t, "-q -l"+filepath.Join(name, "none")+" http://h/")
	testkit.Error(t, c.Report(&strings.Builder{}, &strings.Builder{}, result()), "siege: write the log file: open ")
}

func TestFootnotesExplainMisleadingFigures(t *testing.T) {
	notes := func(r *load.Result, line string) string {
		return strings.Join(parse(t, line).Footnotes(r), "\n")
	}
	got := notes(result(), "-c 2 -t 3s http://h/")
	for _, want := range []string{
		"in this run a transaction took 40.650 ms on average, from 5.000 to 140.000 ms",
		`"Concurrency" is the mean number of concurrent transactions, 1.63, not the number of users, 2`,
		"each transaction opened a connection of its own",
		"\"Response time\" includes the time of 6 failed responses",
		"4 responses with status 400 or above count as hits",
		"5 transactions failed without a response (connect 2, read 1, write 0, timeout 2), the first: connect: connection refused",
	} {
		testkit.Contains(t, got, want)
	}
	for _, not := range []string{"redirection", "images", "cookie", "credentials", "exited", "pauses",
		"the times cover"} {
		testkit.Lacks(t, got, not)
	}
	r := result()
	r.Head = "HTTP/1.1 200 OK\r\nSet-Cookie: a=b\r\nContent-Type: text/html; charset=utf-8\r\n\r\n"
	r.Statuses = map[int]uint64{200: 90, 302: 7, 401: 3}
	r.Errors.Connect, r.Generator.Busy = 2000, 1
	r.Samples = r.Samples[:50]
	got = notes(r, "-c 300 -d 2 -t 3s http://h/")
	for _, want := range []string{
		"siege would have followed 7 redirections", "requested the page's images", "sent back the server's cookies",
		"after 3 responses with status 401",
		"exited after 1024 failures", "in this run pauses lasted any time from 0 to 2s",
		"the times cover the first 50 of 100 transactions",
		"of 300 users there were 255", "the generator was busy 100% of the time",
	} {
		testkit.Contains(t, got, want)
	}
	got = notes(r, "--no-parser --no-follow -t 3s http://h/")
	if strings.Contains(got, "redirection") || strings.Contains(got, "images") {
		t.Errorf("got\n%s", got)
	}
}

func parse(t *testing.T, line string) *siege.Command {
	t.Helper()
	return testkit.Value(siege.Parse(strings.Fields(line)))(t)
}

// file writes a temporary file and returns its name.
func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	testkit.Must(t, os.WriteFile(name, []byte(text), 0o644))
	return name
}

func TestFlagsSetThePlan(t *testing.T) {
	for _, c := range []struct {
		line string
		ok   func(p *load.Plan) bool
	}{
		{"h", func(p *load.Plan) bool {
			return p.URL == "http://h:80/" && p.Header[0] == "Host: h" && p.Connections == 25 && p.Duration == 0 &&
				p.Requests == 25*10301062 && p.Version == load.HTTP11 && p.PerConnection == 1 && p.Think == 0 &&
				p.Timeout == 30*time.Second
		}},
		{"-r 10 -c3 h", func(p *load.Plan) bool { return p.Requests == 30 && p.Samples == 30 }},
		{"-r once -c3 h", func(p *load.Plan) bool { return p.Requests == 3 }},
		{"-t5 h", func(p *load.Plan) bool { return p.Duration == 5*time.Minute }},
		{"-t 20S h", func(p *load.Plan) bool { return p.Duration == 20*time.Second }},
		{"--time=1H h", func(p *load.Plan) bool { return p.Duration == time.Hour }},
		{"h -t 2m -r 7", func(p *load.Plan) bool { return p.Duration == 2*time.Minute && p.Requests > 1e6 }},
		{"-d 1.5 h", func(p *load.Plan) bool { return p.Think == 1500*time.Millisecond }},
		{"-d 1.5 -b h", func(p *load.Plan) bool { return p.Think == 0 }},
		{"-c 0 h", func(p *load.Plan) bool { return p.Connections == 1 }},
		{"-c 300 h", func(p *load.Plan) bool { return p.Connections == 255 }},
		{"https://user:secret@[::1]:8443/a{b#c", func(p *load.Plan) bool {
			return p.URL == "https://[::1]:8443/a%7Bb" && p.Header[0] == "Host: [::1]:8443" && p.TLS.InsecureSkipVerify
		}},
		{"-i -f " + file(t, "h/a\nh/b"), func(p *load.Plan) bool {
			return p.Shuffle && len(p.List) == 2 && p.List[1].URL == "/b"
		}},
		{"-H X-A:b -H Host:other --user-agent=me h", func(p *load.Plan) bool {
			return strings.Join(p.Header, "|") == "Accept: */*|Accept-Encoding: gzip, deflate|User-Agent: me|X-A:b|Host:other|Connection: close"
		}},
		{"-H Accept:text/html h", func(p *load.Plan) bool {
			return strings.Join(p.Header[:2], "|") == "Host: h|Accept-Encoding: gzip, deflate"
		}},
	} {
		if p := parse(t, c.line).Plan(nil); !c.ok(&p) {
			t.Errorf("%s: got %+v", c.line, p)
		}
	}
}

func TestManyFailuresEndTheRun(t *testing.T) {
	gaveUp := 0
	p := parse(t, "h").Plan(func() { gaveUp++ })
	p.Trace.Progress(load.Progress{Errors: load.Errors{Connect: 1023, Status: 9}})
	p.Trace.Progress(load.Progress{Errors: load.Errors{Connect: 1023, Read: 1}})
	testkit.Equal(t, gaveUp, 1)
}

func TestURLFilesAreParsed(t *testing.T) {
	t.Setenv("TARE_TEST_HOST", "h:8080")
	data := file(t, "  x=1\n")
	urls := file(t, `# of all that there is
HOST=$TARE_TEST_HOST
PAGE=page.html

http://h:8080/one?a=b#part
  h:8080/$(PAGE)
h:8080/${PAGE}?b=c  POST name=value  
http://h:8080/two DELETE
http://h:8080/three PUT <`+data+`
`)
	p := parse(t, "-f "+urls).Plan(nil)
	var got []string
	for _, r := range p.List {
		got = append(got, fmt.Sprint(r.Method, " ", r.URL, " ", r.Body, " ", strings.Join(r.Header, ", ")))
	}
	want := []string{
		"GET /one?a=b  ",
		"GET /page.html  ",
		"POST /page.html?b=c name=value Content-Type: application/x-www-form-urlencoded, Content-Length: 10",
		"DELETE /two  Content-Type: application/x-www-form-urlencoded, Content-Length: 0",
		"PUT /three x=1 Content-Type: application/x-www-form-urlencoded, Content-Length: 3",
	}
	testkit.Equal(t, got, want)
}

func TestRCFileSetsDefaults(t *testing.T) {
	rc := file(t, `# a comment
verbose = true
HOME_PAGE = http://h:81/
url = $(HOME_PAGE)
concurrent = 7 # users
reps = 3
delay = 0.5
connection = keep-alive
accept-encoding = *
user-agent: me
protocol = HTTP/1.0
timeout = 9
header = X-A: b
limit = 999
cache = false
show-logfile = true
`)
	p := parse(t, "-c 4 -R "+rc).Plan(nil)
	if p.URL != "http://h:81/" || p.Connections != 4 || p.Requests != 12 || p.Think != 500*time.Millisecond ||
		p.Timeout != 9*time.Second ||
		p.Version != load.HTTP10 || p.PerConnection != 0 ||
		strings.Join(p.Header, "|") != "Host: h:81|Accept: */*|Accept-Encoding: *|User-Agent: me|X-A: b|Connection: keep-alive" {
		t.Errorf("got %+v", p)
	}
	if p := parse(t, "-c 900 h -R "+rc).Plan(nil); p.Connections != 900 || p.URL != "http://h:80/" {
		t.Errorf("got %+v", p)
	}
}

func TestInvalidCommandLinesAreRejected(t *testing.T) {
	several := file(t, "http://a/\n\nhttp://b/")
	empty := file(t, "# nothing\n")
	login := file(t, "verbose = true\nlogin = me:secret\n")
	broken := file(t, "time = soon")
	for _, c := range []struct{ line, want string }{
		{"", "siege: want a URL, or a file of URLs with -f"},
		{"-r 0 h", `flag -r: "0": want an integer from 1 to`},
		{"-t 0s h", `flag -t: "0s": want a number and S, M or H, such as 20S`},
		{"-t 20ss h", `flag -t: "20ss": want a number`},
		{"--delay=-1 h", `flag --delay: "-1": want a number of seconds`},
		{"-g h", "flag -g is not supported; siege's unsupported flags are -C, -D, -g, -p"},
		{"--bogus h", `unknown flag "--bogus"; siege's unsupported flags are`},
		{"-H nothing h", `flag -H: "nothing": want "Name: value"`},
		{"ftp://h/", `siege: URL "ftp://h/": scheme "ftp" is not supported: want http or https`},
		{"http://h:x/", `port "x": want an integer from 1 to 65535`},
		{"http://:80/", "want a host"},
		{"-f /nonexistent", "siege: read the file of URLs: open /nonexistent"},
		{"-R /nonexistent h", "siege: read the file of -R: open /nonexistent"},
		{"-f " + empty, ": no URL"},
		{"-f " + several, `:3: server "b:80" differs from the first URL's: only one is supported`},
		{"h -R " + login, ":2: login: login is not supported"},
		{"h -R " + broken, `:1: time: "soon": want a number and S, M or H`},
	} {
		testkit.Fails(siege.Parse(strings.Fields(c.line)))(t, c.want, c.line)
	}
	if _, err := siege.Parse([]string{"http://h/ POST <" + filepath.Join(t.TempDir(), "none")}); err == nil ||
		!strings.Contains(err.Error(), "/none: no such file") {
		t.Errorf("got %v", err)
	}
}
