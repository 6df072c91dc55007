package engine_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/testkit"
)

// A handler's locked thread and its profiler labels reach no other connection, on loops, on their
// runners, and on the goroutines that serve one connection after another.
func TestHandlersLeaveNoTraces(t *testing.T) {
	testkit.Long(t, "it reads many profiles")
	handler := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/label":
			pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), pprof.Labels("left", "behind")))
		case "/lock":
			runtime.LockOSThread()
		}
		fmt.Fprintf(w, "%s %v.", ownLabels(), lockedThread())
	}
	const none = "none false."
	bothPaths(t, handle(handler), func(s *site) {
		request := func(c net.Conn, path string) string {
			_, body, _ := strings.Cut(s.request(c, path), "\r\n\r\n")
			return body
		}
		others := []net.Conn{s.connect(), s.connect(), s.connect(), s.connect()} // some of them on the same loop
		for range 3 {
			c := s.connect()
			testkit.Equal(s, request(c, "/"), none, "a handler of a new connection sees")
			testkit.Equal(s, request(c, "/label"), `{"left":"behind"} false.`, "a handler sees of its own labels")
			for _, other := range others {
				testkit.Equal(s, request(other, "/"), none, "another handler sees")
			}
			c.Close()
		}
		for _, runs := range []int{0, 200} { // off the loop, then on it
			for range runs {
				request(others[0], "/")
			}
			testkit.Equal(s, request(s.connect(), "/lock"), "none true.", "a handler that locks its thread sees")
			for _, other := range others {
				testkit.WaitFor(s.T, "the locked thread to end", func() bool { return request(other, "/") == none })
			}
		}
	})
	testkit.WaitFor(t, "idle goroutines to end with the server",
		func() bool { return !strings.Contains(allStacks(), "reuse.(*Workers[") })
}

// ownLabels returns the labels of the calling goroutine from the goroutine profile. Other
// goroutines may still be between the end of a handler and the reset of its labels.
func ownLabels() string {
	var profile bytes.Buffer
	_ = pprof.Lookup("goroutine").WriteTo(&profile, 1)
	for record := range strings.SplitSeq(profile.String(), "\n\n") {
		if !strings.Contains(record, "engine_test.ownLabels") {
			continue
		}
		if _, labels, ok := strings.Cut(record, "# labels: "); ok {
			labels, _, _ = strings.Cut(labels, "\n")
			return labels
		}
		return "none"
	}
	return "not found"
}

func lockedThread() bool {
	b := make([]byte, 64)
	head, _, _ := bytes.Cut(b[:runtime.Stack(b, false)], []byte("\n"))
	return bytes.Contains(head, []byte("locked to thread"))
}

// GOMAXPROCS may grow while the server runs: new connections use the new processors.
func TestShardsFollowGOMAXPROCS(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	s := siteOf(t, "tare", "tcp", &http.Server{ReadHeaderTimeout: 100 * time.Millisecond, IdleTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "done.") })})
	serves := func() {
		c := s.connect()
		defer c.Close()
		s.request(c, "/")
	}
	loops := func() int { return strings.Count(allStacks(), "poll.(*Loop).Wait") }
	serves()
	before := loops()
	runtime.GOMAXPROCS(3)
	s.request(s.connect(), "/") // the server checks only while it has connections
	testkit.WaitFor(t, fmt.Sprintf("two more loops than %d to wait", before), func() bool {
		serves()
		return loops() >= before+2
	})
	runtime.GOMAXPROCS(1)
	for range 20 {
		serves()
	}
}

// The kernel sends a large file: the process neither reads it nor holds it in memory. What exceeds
// the response's Content-Length is an error and not sent, as of Write.
func TestLargeFileIsSentWithoutReading(t *testing.T) {
	testkit.Long(t, "it transfers much")
	const length, mostReads, mostAllocated = 32 << 20, 600, 4 << 20 // of the file, which is a byte longer
	name := filepath.Join(t.TempDir(), "f")
	testkit.Must(t, os.WriteFile(name, nil, 0o600))
	testkit.Must(t, os.Truncate(name, length+1))
	bothPaths(t, handle(func(w http.ResponseWriter, r *http.Request) {
		f := testkit.Value(os.Open(name))(t)
		defer f.Close()
		w.Header().Set("Content-Length", strconv.Itoa(length))
		switch way := r.URL.Path[1:]; way {
		case "ServeFile":
			http.ServeFile(w, r, name)
		case "ServeContent":
			http.ServeContent(w, r, "f", time.Time{}, f)
		default:
			testkit.Check(t, w.(connection.SendTimer).SetSendTimeout(time.Minute))
			_, err := io.Copy(w, map[string]io.Reader{"whole": f, "embedded": struct{ *os.File }{f},
				"first": io.LimitReader(f, length), "longer": io.LimitReader(f, length+1)}[way])
			testkit.Equal(t, errors.Is(err, http.ErrContentLength), way != "first", way, "exceeds the length")
		}
	}), func(s *site) {
		for _, way := range []string{"ServeFile", "ServeContent", "whole", "embedded", "first", "longer"} {
			c := s.connect()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			reads := readCalls(s.T)
			io.WriteString(c, "GET /"+way+" HTTP/1.0\r\n\r\n")
			n, head := drain(s.T, c.(*net.TCPConn))
			reads = readCalls(s.T) - reads
			runtime.ReadMemStats(&after)
			testkit.Between(s, n, length, length+1000, "bytes received by", way)
			testkit.Contains(s, head, fmt.Sprint("Content-Length: ", length/10), way)
			testkit.Between(s, reads, 0, mostReads, "calls of read(2) by", way)
			testkit.Between(s, after.TotalAlloc-before.TotalAlloc, 0, mostAllocated, "bytes allocated by", way)
			s.Logf("%s: %d calls of read(2), %d bytes allocated", way, reads, after.TotalAlloc-before.TotalAlloc)
		}
	})
}

// readCalls returns how often the process has called read(2) and similar calls. Input from sockets
// by recv(2) is not counted.
func readCalls(t *testing.T) (n int) {
	t.Helper()
	b := testkit.Value(os.ReadFile("/proc/self/io"))(t)
	_, after, _ := strings.Cut(string(b), "syscr: ")
	testkit.Value(fmt.Sscan(after, &n))(t)
	return n
}

// drain receives everything by recv(2), and returns its length and its first bytes.
func drain(t *testing.T, c *net.TCPConn) (n int, head string) {
	t.Helper()
	f := testkit.Value(c.File())(t)
	defer f.Close()
	b := make([]byte, 256<<10)
	for {
		m, _, err := syscall.Recvfrom(int(f.Fd()), b, 0) // Fd makes it blocking
		if err == syscall.EINTR {
			continue
		}
		testkit.Must(t, err)
		if m == 0 {
			return n, head
		}
		if n == 0 {
			first, _, _ := bytes.Cut(b[:m], []byte("\r\n\r\n"))
			head = string(first)
		}
		n += m
	}
}

// Shutdown closes idle connections, but not one on which a part of a request has arrived, as in
// nginx and net/http, nor one that is new. The response announces the end.
func TestShutdownServesRequestThatHasBegun(t *testing.T) {
	someModes(t, handle(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "x") }), func(s *site) {
		begun, idle, fresh := s.connect(), s.connect(), s.connect()
		in := bufio.NewReader(begun)
		request := func(rest string, in *bufio.Reader, to io.Writer) *http.Response {
			s.Helper()
			io.WriteString(to, rest)
			resp := testkit.Value(http.ReadResponse(in, nil))(s)
			io.Copy(io.Discard, resp.Body)
			return resp
		}
		inIdle := bufio.NewReader(idle)
		request(get, in, begun)
		request(get, inIdle, idle)
		io.WriteString(begun, "GET / HTT")
		awaitOpen(s.T, s.server, 3)
		done := make(chan error, 1)
		go func() { done <- s.server.Shutdown(s.Context()) }()
		testkit.Fails(inIdle.ReadByte())(s, "EOF", "on an idle connection")
		testkit.Equal(s, request(get, bufio.NewReader(fresh), fresh).Close, true, "the new connection closes")
		testkit.Equal(s, request("P/1.1\r\nHost: host\r\n\r\n", in, begun).Close, true, "the connection closes")
		testkit.Fails(in.ReadByte())(s, "EOF", "after the response")
		testkit.Check(s, <-done)
	}, "tcp", "unix", "ServeTLS")
}

// mustBeSmall fails the test if connections that open makes, and that wait, take more than a limit of
// bytes each, or goroutines. The bytes include the client's socket, which is of package net.
func mustBeSmall(t *testing.T, limit int64, open func()) {
	t.Helper()
	const n = 400
	many := func(n int) uint64 {
		for range n {
			open()
		}
		return testkit.InUse()
	}
	before, goroutines := many(50), runtime.NumGoroutine()
	each := int64(many(n)-before) / n
	t.Logf("%d bytes each", each)
	testkit.Between(t, max(0, each), 0, limit, "bytes each")
	testkit.Between(t, max(0, runtime.NumGoroutine()-goroutines), 0, n/10, "more goroutines")
}

// An idle TLS connection holds neither a goroutine nor a buffer beyond those of package tls. One of
// HTTP/2 holds little more: the session, and the fields that the client has put into the table of
// HPACK.
func TestIdleTLSConnectionsAreSmall(t *testing.T) {
	testkit.Long(t, "it opens many connections")
	testkit.NoRace(t, "it uses memory of its own")
	// open returns a connection of which the client keeps only the socket
	open := func(t *testing.T, dial func() (net.Conn, error)) net.Conn {
		c := testkit.Value(dial())(t)
		raw := c.(*tls.Conn).NetConn()
		t.Cleanup(func() { raw.Close() })
		return c
	}
	someModes(t, handle(write("done.")), func(s *site) {
		mustBeSmall(s.T, 7<<10, func() { s.request(open(s.T, s.dial), "/") })
	}, "ServeTLS")
	s := newHTTP2Site(t, "on loop", "h2-tls-shard", handle(write("done."))())
	mustBeSmall(t, 9<<10, func() {
		c := newRawHTTP2(t, open(t, s.dial))
		c.send("GET 1 /some/path user-agent=program accept-encoding=gzip x-session=value-of-the-session")
		c.await("DATA done. end")
	})
}

// The server acknowledges the client's last message of a TLS handshake at once, to which it sends
// nothing: a client that uses Nagle's algorithm waits for that before it sends its request. The
// kernel reports whether it would have delayed this acknowledgment.
func TestHandshakesAreAcknowledgedAtOnce(t *testing.T) {
	someModes(t, handle(func(w http.ResponseWriter, _ *http.Request) {
		nc := hijacked(t, w)
		defer nc.Close()
		var quick int
		var err error
		testkit.Control(t, nc.(*tls.Conn).NetConn(), func(fd int) {
			quick, err = syscall.GetsockoptInt(fd, syscall.IPPROTO_TCP, syscall.TCP_QUICKACK)
		})
		fmt.Fprint(nc, quick, err)
	}), func(s *site) {
		c := s.connect()
		io.WriteString(c, get)
		testkit.Equal(s, readAllOf(s.T, c), "1 <nil>")
	}, "tls", "ServeTLS")
}
