package ab_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/dialect"
	"github.com/tarehq/tare/internal/dialect/ab"
	"github.com/tarehq/tare/internal/dialect/dialecttest"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
	"github.com/tarehq/tare/load"
)

// run is the outcome of a command line.
type run struct {
	stdout, stderr string
	code           int
	sent           string // the first request
	requests       int    // that the server saw
	connections    int
}

// theirs runs the real ab.
func theirs(t *testing.T, s *dialecttest.Server, args []string) run {
	t.Helper()
	path, env := programs.AB(t)
	s.Reset()
	c := testkit.Command(t, path, args...)
	c.Env = append(os.Environ(), env...)
	var stdout, stderr bytes.Buffer
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || !exit.Exited()) {
		t.Fatal(err)
	}
	return run{stdout.String(), stderr.String(), c.ProcessState.ExitCode(), s.First(), s.Requests(), s.Connections()}
}

// ours runs the same command line as "tare ab".
func ours(t *testing.T, s *dialecttest.Server, args []string) run {
	t.Helper()
	s.Reset()
	c := testkit.Value(ab.Parse(args))(t)
	var stdout, stderr bytes.Buffer
	c.Begin(&stdout, &stderr)
	r, err := load.Run(t.Context(), c.Plan())
	if r == nil {
		t.Fatal(err)
	}
	code := 0
	if err := c.Report(&stdout, &stderr, r); err != nil {
		exit, ok := errors.AsType[*dialect.ExitError](err)
		if !ok {
			t.Fatal(err)
		}
		code = exit.Code
	}
	return run{stdout.String(), stderr.String(), code, s.First(), s.Requests(), s.Connections()}
}

// withoutDoubts removes ab's warnings about times, which depend on chance.
func withoutDoubts(text string) string {
	return regexp.MustCompile(`(ERROR|WARNING): .*\n  .*\n`).ReplaceAllString(text, "")
}

// shape returns what a report must have in common with ab's, whatever the times.
func shape(text string) string {
	return dialecttest.Shape(withoutDoubts(text),
		regexp.MustCompile(`^(Connect|Processing|Waiting|Total): |^ +[0-9]+%|^<tr.*(Connect|Processing|Total):`))
}

// counts returns the lines of a report that are the same in each run.
func counts(text string) string {
	var same []string
	for line := range strings.Lines(text) {
		if regexp.MustCompile(`^(Server|Document|SSL|TLS|Concurrency|Complete|Failed|   \(|Write|Non-2xx|Keep-Alive|Total trans|Total body|HTML)|Completed|Finished|<tr.*(Server|Document|requests|transferred|body)`).MatchString(line) {
			same = append(same, line)
		}
	}
	return strings.Join(same, "")
}

func compare(t *testing.T, theirs, ours run) {
	t.Helper()
	for _, c := range []struct{ what, theirs, ours string }{
		{"request", theirs.sent, ours.sent},
		{"shape", shape(theirs.stdout), shape(ours.stdout)},
		{"counts", counts(theirs.stdout), counts(ours.stdout)},
		{"standard error", theirs.stderr, ours.stderr},
		{"exit code", strconv.Itoa(theirs.code), strconv.Itoa(ours.code)},
		{"requests that came", strconv.Itoa(theirs.requests), strconv.Itoa(ours.requests)},
	} {
		if c.theirs != c.ours {
			t.Errorf("%s: ab has\n%s\nours has\n%s", c.what, c.theirs, c.ours)
		}
	}
	// Without -k, both open a few connections for which no request is left.
	if kept := strings.Contains(theirs.sent, "Keep-Alive") && theirs.connections < theirs.requests; kept &&
		ours.connections != theirs.connections {
		t.Errorf("ab made %d connections, ours %d", theirs.connections, ours.connections)
	}
	if t.Failed() {
		t.Logf("ab printed\n%s\n%s\nours printed\n%s\n%s", theirs.stdout, theirs.stderr, ours.stdout, ours.stderr)
	}
}

// respond responds according to the path; on some paths, every tenth response differs.
func respond() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tenth := dialecttest.Number(r)%10 == 0
		w.Header().Set("Server", "test/1.0 (net/http)")
		switch r.URL.Path {
		case "/missing":
			w.WriteHeader(http.StatusNotFound)
		case "/long":
			if tenth {
				fmt.Fprint(w, "and ")
			}
		case "/close":
			w.Header().Set("Connection", "close")
		case "/chunks": // of no length: the connection ends with it
			fmt.Fprint(w, "hel")
			w.(http.Flusher).Flush()
			fmt.Fprint(w, "lo")
			return
		case "/none":
			if tenth {
				panic(http.ErrAbortHandler)
			}
		case "/reset":
			if tenth {
				c, _, err := w.(http.Hijacker).Hijack()
				if err == nil {
					err = reset(c)
				}
				if err != nil {
					panic(err)
				}
				return
			}
		case "/silent":
			if tenth {
				<-r.Context().Done() // until the client goes
				return
			}
		}
		fmt.Fprint(w, "hello")
	})
}

// reset closes a connection so that the peer's next call fails.
func reset(c net.Conn) error {
	if tap, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = tap.NetConn()
	}
	if err := c.(*net.TCPConn).SetLinger(0); err != nil {
		return err
	}
	return c.Close()
}

func TestReportsMatchRealAB(t *testing.T) {
	body := filepath.Join(t.TempDir(), "body")
	testkit.Must(t, os.WriteFile(body, []byte("name=value"), 0o644))
	s := dialecttest.NewServer(t, respond())
	for _, line := range []string{
		"-n 50 -c 5 URL",
		"-k -n 50 -c 5 URL",
		"-k -n 100 -c 1 URLmissing",
		"-n 40 -c 2 URLlong",
		"-k -l -n 40 -c 4 URLlong",
		"-k -n 20 -c 4 URLclose",
		"-k -n 20 -c 4 URLchunks",
		"-n 40 -c 3 URLnone",
		"-r -n 40 -c 3 URLnone",
		"-r -n 40 -c 2 URLreset",
		"-n 1 URL",
		"-n 3 -d URL",
		"-n 5 -S -c 2 URL",
		"-n 1200 -k -c 8 URL",
		"-n 200 -q -k URL",
		"-i -k -n 20 -c 2 URL",
		"-n 20 -c 2 -p BODY -T application/x-www-form-urlencoded URL",
		"-k -n 20 -c 2 -u BODY URL",
		"-m DELETE -n 3 URL",
		"-n 10 -c 2 -w URL",
		"-n 10 -k -x border=1 -y class=a -z class=b -p BODY URL",
		"-k -H Accept-Encoding:~gzip -C a=1 -A user:secret -P proxy:secret -n 2 URLpath?q=1",
		"-H User-Agent:~me -H Accept:~text/html -H Host:~other.example -n 2 URL",
		"-C a=1 -C b=2 -n 1 URL",
	} {
		t.Run(line, func(t *testing.T) {
			args := strings.Fields(strings.NewReplacer("URL", s.URL, "BODY", body).Replace(line))
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "~", " ")
			}
			compare(t, theirs(t, s, args), ours(t, s, args))
		})
	}
}

// -t ends a run, whatever its number of requests.
func TestTimeLimitMatchesRealAB(t *testing.T) {
	s := dialecttest.NewServer(t, respond())
	args := []string{"-k", "-q", "-t", "1", "-n", "10000000", "-c", "2", s.URL}
	th, our := theirs(t, s, args), ours(t, s, args)
	if th.code != 0 || our.code != 0 || shape(th.stdout) != shape(our.stdout) {
		t.Errorf("ab printed\n%s\nours printed\n%s\n%s", th.stdout, our.stdout, our.stderr)
	}
	if !regexp.MustCompile(`Time taken for tests:   [1-9]`).MatchString(our.stdout) {
		t.Errorf("got\n%s", our.stdout)
	}
}

// Errors that make ab exit do not end tare's run, but the report is the same.
func TestEarlyExitMatchesRealAB(t *testing.T) {
	s := dialecttest.NewServer(t, respond())
	for _, line := range []string{"-n 12 URLreset", "-t 60 -n 200 URLreset", "-s 1 -n 12 URLsilent"} {
		t.Run(line, func(t *testing.T) {
			args := append([]string{"-q"}, strings.Fields(strings.ReplaceAll(line, "URL", s.URL))...)
			th, our := theirs(t, s, args), ours(t, s, args)
			if th.stdout != our.stdout || th.stderr != our.stderr || th.code != our.code {
				t.Errorf("ab ended with %d and printed\n%s\n%s\nours with %d, and\n%s\n%s", th.code, th.stdout,
					th.stderr, our.code, our.stdout, our.stderr)
			}
		})
	}
}

func TestRefusedConnectionMatchesRealAB(t *testing.T) {
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	url := "http://" + l.Addr().String() + "/"
	l.Close() // no server listens there now
	s := dialecttest.NewServer(t, respond())
	for _, line := range []string{"-n 20 -c 2", "-k -n 200 -c 5"} {
		t.Run(line, func(t *testing.T) {
			args := append(strings.Fields(line), url)
			compare(t, theirs(t, s, args), ours(t, s, args))
		})
	}
}

func TestTLSMatchesRealAB(t *testing.T) {
	s := dialecttest.NewTLSServer(t, respond())
	named := strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	for _, line := range []string{"-n 4 -c 2 " + s.URL, "-k -f TLS1.2 -n 4 -c 2 " + named,
		"-k -n 20 -H Host:other.example " + s.URL} {
		t.Run(line, func(t *testing.T) {
			th, our := theirs(t, s, strings.Fields(line)), ours(t, s, strings.Fields(line))
			th.sent, our.sent = "", ""            // it is encrypted
			if strings.Contains(line, "TLS1.2") { // Go does not tell which key there was
				th.stdout = regexp.MustCompile("Server Temp Key: .*\n").ReplaceAllString(th.stdout, "")
			}
			compare(t, th, our)
		})
	}
}
