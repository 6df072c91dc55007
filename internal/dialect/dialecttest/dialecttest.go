// Package dialecttest is for tests that compare a tool with ours: a server that keeps what it is
// sent, and the shape of a report.
package dialecttest

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Server is net/http's, with a tap on its connections.
type Server struct {
	URL string // ends in a slash

	requests, connections atomic.Int64

	mu     sync.Mutex
	first  []byte
	tapped bool // the first request since Reset has been read
}

// NewServer starts a server that lives as long as the test.
func NewServer(t testing.TB, handler http.Handler) *Server {
	t.Helper()
	return start(t, handler, (*httptest.Server).Start)
}

// NewTLSServer is NewServer with TLS. What it keeps is encrypted.
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
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // ab ends TLS without a word
	start(server)
	t.Cleanup(server.Close)
	s.URL = server.URL + "/"
	return s
}

// Reset forgets what was sent so far.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.first, s.tapped = nil, false
	s.requests.Store(0)
	s.connections.Store(0)
}

type numberKey struct{}

// Number returns which request since Reset that is, from 1.
func Number(r *http.Request) int { return r.Context().Value(numberKey{}).(int) }

// Requests returns how many requests came since Reset.
func (s *Server) Requests() int { return int(s.requests.Load()) }

// Connections returns how many connections were accepted since Reset.
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

// tapConn keeps what comes before the first response. Only the first connection that brings
// something is kept.
type tapConn struct {
	net.Conn
	server *Server
	mine   bool // this connection is the one
	done   bool // it has had a response
}

// NetConn returns the connection itself.
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

// tries is how often a run of a second is compared with another.
const tries = 5

// Again tries until nothing is wrong, as two runs may differ of which one had no processor for a while. What is
// wrong with the last is an error.
func Again(t testing.TB, try func() error) {
	t.Helper()
	var err error
	for range tries {
		if err = try(); err == nil {
			return
		}
	}
	t.Error(err)
}

// Shape makes numbers alike: of each it leaves how many decimals it has, and in lines that match
// aligned how wide it is with the spaces before it.
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
