package ab_test

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/dialect/ab"
	"github.com/tarehq/tare/internal/dialect/dialecttest"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// theirs runs the real ab.
func theirs(t *testing.T, s *dialecttest.Server, args []string) dialecttest.Outcome {
	t.Helper()
	path, env := programs.Installed(t, "ab", "apache2-utils")
	return s.RunReal(t, testkit.Command(t, path, args...), env)
}

// ours runs the same command line as "tare ab".
func ours(t *testing.T, s *dialecttest.Server, args []string) dialecttest.Outcome {
	t.Helper()
	return s.RunOurs(t, testkit.Value(ab.Parse(args))(t))
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

// same returns the parts of the output that are the same in each run.
func same(o dialecttest.Outcome) []string {
	counts := regexp.MustCompile(`^(Server|Document|SSL|TLS|Concurrency|Complete|Failed|   \(|Write|Non-2xx|` +
		`Keep-Alive|Total trans|Total body|HTML)|Completed|Finished|<tr.*(Server|Document|requests|transferred|body)`)
	return []string{shape(o.Stdout), dialecttest.Matching(o.Stdout, counts), o.Stderr}
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
			dialecttest.Compare(t, theirs(t, s, args), ours(t, s, args), same)
		})
	}
}

// -t ends a run, whatever its number of requests.
func TestTimeLimitMatchesRealAB(t *testing.T) {
	s := dialecttest.NewServer(t, respond())
	args := []string{"-k", "-q", "-t", "1", "-n", "10000000", "-c", "2", s.URL}
	th, our := theirs(t, s, args), ours(t, s, args)
	if th.Code != 0 || our.Code != 0 || shape(th.Stdout) != shape(our.Stdout) {
		t.Errorf("ab printed\n%s\nours printed\n%s\n%s", th.Stdout, our.Stdout, our.Stderr)
	}
	if !regexp.MustCompile(`Time taken for tests:   [1-9]`).MatchString(our.Stdout) {
		t.Errorf("got\n%s", our.Stdout)
	}
}

// Errors that make ab exit do not end tare's run, but the report is the same.
func TestEarlyExitMatchesRealAB(t *testing.T) {
	s := dialecttest.NewServer(t, respond())
	for _, line := range []string{"-n 12 URLreset", "-t 60 -n 200 URLreset", "-s 1 -n 12 URLsilent"} {
		t.Run(line, func(t *testing.T) {
			args := append([]string{"-q"}, strings.Fields(strings.ReplaceAll(line, "URL", s.URL))...)
			th, our := theirs(t, s, args), ours(t, s, args)
			if th.Stdout != our.Stdout || th.Stderr != our.Stderr || th.Code != our.Code {
				t.Errorf("ab ended with %d and printed\n%s\n%s\nours with %d, and\n%s\n%s", th.Code, th.Stdout,
					th.Stderr, our.Code, our.Stdout, our.Stderr)
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
			dialecttest.Compare(t, theirs(t, s, args), ours(t, s, args), same)
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
			th.Sent, our.Sent = "", ""            // it is encrypted
			if strings.Contains(line, "TLS1.2") { // Go does not tell which key there was
				th.Stdout = regexp.MustCompile("Server Temp Key: .*\n").ReplaceAllString(th.Stdout, "")
			}
			dialecttest.Compare(t, th, our, same)
		})
	}
}
