// Package dialecttest helps tests to compare a tool with its emulation. It provides a server that
// records requests, runs of both, and the shape of a report.
package dialecttest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tarehq/tare/internal/dialect"
)

// Server is a net/http server that records its first request.
type Server struct {
	URL string // ends in a slash

	requests, connections atomic.Int64

	mu     sync.Mutex
	first  []byte
	tapped bool // a connection has received a request since Reset
}

// NewServer starts a server that runs until the test ends.
func NewServer(t testing.TB, handler http.Handler) *Server {
	t.Helper()
	return start(t, handler, (*httptest.Server).Start)
}

// NewTLSServer is NewServer with TLS. The recorded bytes are encrypted.
func NewTLSServer(t testing.TB, handler http.Handler) *Server {
	t.Helper()
	return start(t, handler, (*httptest.Server).StartTLS)
}

func start(t testing.TB, handler http.Handler, start func(*httptest.Server)) *Server {
	t.Helper()
	s := &Server{}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := s.requests.Add(1)
		handler.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), numberKey{}, int(n))))
	}))
	server.Listener = &tapListener{server.Listener, s}
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // ab closes connections without a TLS alert
	start(server)
	t.Cleanup(server.Close)
	s.URL = server.URL + "/"
	return s
}

// Reset clears the recording and the counters.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first, s.tapped = nil, false
	s.requests.Store(0)
	s.connections.Store(0)
}

type numberKey struct{}

// Number returns the number of a request since Reset, starting at 1.
func Number(r *http.Request) int { return r.Context().Value(numberKey{}).(int) }

// Requests returns the number of requests since Reset.
func (s *Server) Requests() int { return int(s.requests.Load()) }

// Connections returns the number of accepted connections since Reset.
func (s *Server) Connections() int { return int(s.connections.Load()) }

// First returns the bytes of the first request since Reset.
func (s *Server) First() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.first)
}

type tapListener struct {
	net.Listener
	server *Server
}

func (l *tapListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.server.connections.Add(1)
	return &tapConn{Conn: c, server: l.server}, nil
}

// tapConn records what it reads before the first response, on the first connection that receives
// anything.
type tapConn struct {
	net.Conn
	server *Server
	mine   bool // this connection is recorded
	done   bool // a response was written
}

// NetConn returns the wrapped connection.
func (c *tapConn) NetConn() net.Conn { return c.Conn }

func (c *tapConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if n > 0 && !c.server.tapped {
		c.mine, c.server.tapped = true, true
	}
	if c.mine && !c.done {
		c.server.first = append(c.server.first, p[:n]...)
	}
	return n, err
}

func (c *tapConn) Write(p []byte) (int, error) {
	c.server.mu.Lock()
	c.done = true
	c.server.mu.Unlock()
	return c.Conn.Write(p)
}

// Outcome is what a run of a tool, or of its emulation, did.
type Outcome struct {
	Stdout, Stderr string
	Code           int
	Sent           string // the first request
	Requests       int    // that the server received
	Connections    int
}

// RunReal runs a tool that loads the server, with additional environment variables.
func (s *Server) RunReal(t testing.TB, c *exec.Cmd, env []string) Outcome {
	t.Helper()
	s.Reset()
	c.Env = append(os.Environ(), env...)
	var stdout, stderr strings.Builder
	c.Stdout, c.Stderr = &stdout, &stderr
	err := c.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || !exit.Exited()) {
		t.Fatal(err)
	}
	return s.outcome(stdout.String(), stderr.String(), c.ProcessState.ExitCode())
}

func (s *Server) outcome(stdout, stderr string, code int) Outcome {
	return Outcome{stdout, stderr, code, s.First(), s.Requests(), s.Connections()}
}

// RunOurs is RunReal for an emulation.
func (s *Server) RunOurs(t testing.TB, ours dialect.Tool) Outcome {
	t.Helper()
	s.Reset()
	var stdout, stderr strings.Builder
	exit := new(dialect.Exit)
	err := dialect.Run(t.Context(), ours, &stdout, &stderr, false)
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return s.outcome(stdout.String()+exit.Stdout, stderr.String()+exit.Stderr, exit.Code)
}

// Compare reports differences between a tool and its emulation: of the requests, the exit codes, and
// the parts of the output that are the same in each run.
func Compare(t testing.TB, theirs, ours Outcome, parts func(Outcome) []string) {
	t.Helper()
	of := func(o Outcome) []string {
		return append(parts(o), o.Sent, fmt.Sprint("exit code ", o.Code), fmt.Sprint(o.Requests, " requests came"))
	}
	our := of(ours)
	for i, part := range of(theirs) {
		if part != our[i] {
			t.Errorf("the tool has\n%s\nours has\n%s", part, our[i])
		}
	}
	// Without keep-alive, both may open a few connections for which no request is left.
	kept := strings.Contains(strings.ToLower(theirs.Sent), "keep-alive") && theirs.Connections < theirs.Requests
	if kept && ours.Connections != theirs.Connections {
		t.Errorf("the tool made %d connections, ours %d", theirs.Connections, ours.Connections)
	}
	if t.Failed() {
		t.Logf("the tool printed\n%s\n%s\nours printed\n%s\n%s", theirs.Stdout, theirs.Stderr, ours.Stdout, ours.Stderr)
	}
}

// Matching returns the lines of a text that match.
func Matching(text string, lines *regexp.Regexp) string {
	var all strings.Builder
	for line := range strings.Lines(text) {
		if lines.MatchString(line) {
			all.WriteString(line)
		}
	}
	return all.String()
}

// Shape replaces each number by its count of decimals and, in lines that match aligned, its width
// including the spaces before it.
func Shape(text string, aligned *regexp.Regexp) string {
	number := regexp.MustCompile(`[ \t]*[0-9]+(\.[0-9]+)?`)
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(number.ReplaceAllStringFunc(line, func(s string) string {
			_, decimals, _ := strings.Cut(s, ".")
			if aligned != nil && aligned.MatchString(line) {
				return fmt.Sprintf("<%d.%d>", len(s), len(decimals))
			}
			return fmt.Sprintf("<.%d>", len(decimals))
		}))
	}
	return out.String()
}
