package wrk_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/dialect/dialecttest"
	"github.com/tarehq/tare/internal/dialect/wrk"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
	"github.com/tarehq/tare/load"
)

// respond responds with hello, at /missing with 404; at /close it closes the connection after the
// response, and at /abort before it.
func respond(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/missing":
		w.WriteHeader(http.StatusNotFound)
	case "/close":
		w.Header().Set("Connection", "close")
	case "/abort":
		panic(http.ErrAbortHandler)
	}
	fmt.Fprint(w, "hello")
}

// words splits a command line, in which _ stands for a space inside a word.
func words(line string) []string {
	all := strings.Fields(line)
	for i := range all {
		all[i] = strings.ReplaceAll(all[i], "_", " ")
	}
	return all
}

// ours runs a command line as "tare wrk".
func ours(t *testing.T, line string) (report string, r *load.Result) {
	t.Helper()
	c, err := wrk.Parse(words(line))
	if err == nil {
		err = c.Probe(t.Context())
	}
	testkit.Must(t, err)
	var out, stderr strings.Builder
	c.Begin(&out, &stderr)
	r = testkit.Value(load.Run(t.Context(), c.Plan(nil)))(t)
	if err := c.Report(&out, &stderr, r); err != nil || stderr.Len() > 0 {
		t.Errorf("%v, on stderr %q", err, stderr.String())
	}
	return out.String(), r
}

// startTheirs starts the real wrk. Its output is available after end.
func startTheirs(t *testing.T, line string) (stdout, stderr *strings.Builder, end func() error) {
	t.Helper()
	path, env := programs.Installed(t, "wrk", "wrk")
	c := testkit.Command(t, path, words(line)...)
	c.Env = append(os.Environ(), env...)
	stdout, stderr = new(strings.Builder), new(strings.Builder)
	c.Stdout, c.Stderr = stdout, stderr
	testkit.Must(t, c.Start())
	return stdout, stderr, c.Wait
}

// shape returns a report with N for every number with its unit, and single spaces. A unit of one
// letter has a space behind it. It omits the output of -v, which differs.
func shape(report string) string {
	report = report[max(0, strings.Index(report, "Running ")):]
	report = regexp.MustCompile(`-nan|\d+(\.\d+)?(us|ms|[smhkKMGT])?B?\b ?`).ReplaceAllString(report, "N ")
	return regexp.MustCompile(` +`).ReplaceAllString(report, " ")
}

// cutPath splits the path, without its slash, from the end of a command line.
func cutPath(line string) (args, path string) {
	i := strings.LastIndex(line, " /")
	return line[:i], line[i+2:]
}

// Given the same command line and equal servers, the reports of wrk and tare have the same lines.
// The servers receive the same requests over the same number of connections.
func TestReportsAndRequestsMatchRealWrk(t *testing.T) {
	for _, line := range []string{
		"-t2 -c5 -d1s --latency /",
		"-t1 -c3 -d1 -H X-A:_1 -H Accept:_text/html -H X-A:_2 /missing",
		"-t2 -c4 -d1s /close",
		"-t1 -c2 -d1s --latency /abort",
		"--threads 3 --conn=7 --dur 1 -L --timeout 9s -v /?q=1",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			compare(t, line)
		})
	}
}

// compare compares wrk and tare, given a command line.
func compare(t *testing.T, line string) {
	t.Helper()
	their, our := dialecttest.NewServer(t, http.HandlerFunc(respond)),
		dialecttest.NewServer(t, http.HandlerFunc(respond))
	args, path := cutPath(line)
	want, _, end := startTheirs(t, args+" "+their.URL+path)
	got, r := ours(t, args+" "+our.URL+path)
	testkit.Must(t, end())
	testkit.Equal(t, shape(got), shape(want.String()), got)
	testkit.Equal(t, lines(our), lines(their), "the request, and wrk's")
	if path != "close" && path != "abort" && our.Connections() != their.Connections() {
		t.Errorf("%d connections came, from wrk %d", our.Connections(), their.Connections())
	}
	if n := uint64(our.Requests()); n < r.Requests {
		t.Errorf("%d requests were reported, %d came", r.Requests, n)
	}
}

// lines returns the sorted lines of the first request without Host, because wrk's order of fields
// varies, and ports differ.
func lines(s *dialecttest.Server) []string {
	first := strings.ReplaceAll(s.First(), strings.Trim(s.URL, "htp:/"), "host")
	return slices.Sorted(strings.SplitSeq(first, "\r\n"))
}

// Like wrk, tare accepts self-signed certificates.
func TestSelfSignedCertificateIsAccepted(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(http.HandlerFunc(respond))
	defer s.Close()
	want, _, end := startTheirs(t, "-t1 -c2 -d1s "+s.URL)
	got, _ := ours(t, "-t1 -c2 -d1s "+s.URL)
	testkit.Must(t, end())
	testkit.Equal(t, shape(got), shape(want.String()), got)
	if got, r := ours(t, "-t1 -c2 -r4 "+s.URL); r.Requests != 4 {
		t.Errorf("got\n%s", got)
	}
}

// As in wrk 1.0, exactly the given number of requests is sent.
func TestExactlyTheNumberOfRequestsIsSent(t *testing.T) {
	for _, c := range []struct {
		line     string
		requests int
	}{
		{"-t32 -c32 -r1k /", 992},
		{"-t3 -c10 -r100 /close", 99},
		{"-t2 -c4 -r2 /missing", 2},
	} {
		s := dialecttest.NewServer(t, http.HandlerFunc(respond))
		args, path := cutPath(c.line)
		report, r := ours(t, args+" "+s.URL+path)
		if r.Requests != uint64(c.requests) || s.Requests() != c.requests ||
			!strings.Contains(report, fmt.Sprintf("\n  %d requests in ", c.requests)) {
			t.Errorf("%s: %d responses to %d requests, want %d\n%s", c.line, r.Requests, s.Requests(), c.requests,
				report)
		}
		if !strings.HasPrefix(report, "Making ") {
			t.Errorf("%s: got\n%s", c.line, report)
		}
	}
}

func TestProbeReportsAnUnreachableServer(t *testing.T) {
	for _, url := range []string{"http://127.0.0.1:1/", "https://127.0.0.1:1", "http://no..name:80/",
		"http://no..name/"} {
		stdout, want, end := startTheirs(t, "-d1 "+url)
		if err := end(); err == nil || stdout.Len() > 0 {
			t.Fatalf("%s: wrk ended with %v after printing %q", url, err, stdout)
		}
		c := testkit.Value(wrk.Parse([]string{"-d1", url}))(t)
		if err := c.Probe(t.Context()); err == nil || err.Error()+"\n" != want.String() {
			t.Errorf("%s: got %v, wrk says %q", url, err, want)
		}
	}
}
