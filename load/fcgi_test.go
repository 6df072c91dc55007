package load_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/fcgi"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
)

// listen returns a socket and the URL of its root without the final slash.
func listen(t testing.TB, scheme, network string) (l net.Listener, url string) {
	t.Helper()
	at := "127.0.0.1:0"
	if network == "unix" {
		at = filepath.Join(t.TempDir(), "s")
	}
	l, err := net.Listen(network, at)
	testkit.Must(t, err)
	t.Cleanup(func() { l.Close() })
	if network == "unix" {
		return l, scheme + "+unix://" + at + ":"
	}
	return l, scheme + "://" + l.Addr().String()
}

// application is net/http/fcgi on a socket of each kind.
func application(t testing.TB, h http.HandlerFunc) (urls []string) {
	t.Helper()
	for _, network := range []string{"tcp", "unix"} {
		l, url := listen(t, "fcgi", network)
		go fcgi.Serve(l, h)
		urls = append(urls, url)
	}
	return urls
}

func TestFastCGICountsWhatTheApplicationCounts(t *testing.T) {
	var served atomic.Int64
	var seen sync.Map
	urls := application(t, func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		b, _ := io.ReadAll(r.Body)
		seen.Store(fmt.Sprintf("%s %s %s %s %s", r.Method, r.URL.RequestURI(), r.Header.Get("X-A"),
			r.Header.Get("User-Agent"), b), true)
		if r.RemoteAddr != "127.0.0.1:49152" || r.Host != "a.example" ||
			fcgi.ProcessEnv(r)["SCRIPT_FILENAME"] != "/srv"+r.URL.Path {
			t.Errorf("%s of %s: %v", r.Host, r.RemoteAddr, fcgi.ProcessEnv(r))
		}
		switch r.URL.Path {
		case "/flushed":
			io.WriteString(w, strings.Repeat("x", 3000))
			w.(http.Flusher).Flush()
			io.WriteString(w, "y")
		case "/large":
			w.Write(make([]byte, 300_000))
		case "/404":
			http.NotFound(w, r)
		case "/length":
			w.Header().Set("Content-Length", "2")
			io.WriteString(w, "ok")
		}
	})
	for _, url := range urls {
		for _, test := range []struct {
			plan   load.Plan
			seen   string
			status int
		}{
			{load.Plan{URL: url}, "GET /  tare ", 200},
			{load.Plan{URL: url + "/a?b=c", Header: []string{"X-A: 1", "User-Agent: u"}}, "GET /a?b=c 1 u ", 200},
			{load.Plan{URL: url + "/post", Method: "POST", Body: "hello"}, "POST /post  tare hello", 200},
			{load.Plan{URL: url + "/head", Method: "HEAD"}, "HEAD /head  tare ", 200},
			{load.Plan{URL: url + "/flushed"}, "GET /flushed  tare ", 200},
			{load.Plan{URL: url + "/large"}, "GET /large  tare ", 200},
			{load.Plan{URL: url + "/404"}, "GET /404  tare ", 404},
			{load.Plan{URL: url + "/length", Pace: load.Constant(300)}, "GET /length  tare ", 200},
		} {
			t.Run(test.plan.URL, func(t *testing.T) {
				const connections = 7
				test.plan.Connections, test.plan.Threads = connections, 2
				test.plan.Header = append(test.plan.Header, "Host: a.example")
				test.plan.Params = []string{"DOCUMENT_ROOT=/srv"}
				served.Store(0)
				test.plan.Requests = 10 * connections
				r := run(t, test.plan)
				if _, ok := seen.LoadAndDelete(test.seen); !ok {
					t.Error("the application saw something else")
				}
				failed := r.Errors.Total()
				if test.status >= 400 {
					failed -= r.Requests
				}
				if r.Requests != test.plan.Requests || failed != 0 || r.Statuses[test.status] != r.Requests || r.Connects != connections ||
					*r.FastCGI != (load.FastCGI{}) {
					t.Errorf("%d requests, statuses %v, errors %+v, %d connects, %+v", r.Requests, r.Statuses, r.Errors,
						r.Connects, r.FastCGI)
				}
				if n := uint64(served.Load()); r.Requests != n {
					t.Errorf("%d requests counted, %d served", r.Requests, n)
				}
				if uint64(r.Service.Count()) != r.Requests || uint64(r.Latency.Count()) != r.Requests+r.NoResponse ||
					r.Latency.Max() <= 0 || r.URL != test.plan.URL {
					t.Errorf("%s: %d latencies, longest %v", r.URL, r.Latency.Count(), r.Latency.Max())
				}
			})
		}
	}
}

// fcgiScript starts a FastCGI application that handles each connection by a function.
func fcgiScript(t *testing.T, serve func(n int, c net.Conn, requests *bufio.Reader)) string {
	_, address, _ := strings.Cut(script(t, serve), "://")
	return "fcgi://" + address + "/"
}

// readRequest reads a request up to the end of its body.
func readRequest(r *bufio.Reader) error {
	for {
		header := make([]byte, 8)
		if _, err := io.ReadFull(r, header); err != nil {
			return err
		}
		n := int(binary.BigEndian.Uint16(header[4:]))
		if header[0] != 1 || header[3] != 1 {
			return fmt.Errorf("header % x", header)
		}
		if _, err := r.Discard(n + int(header[6])); err != nil {
			return err
		}
		if header[1] == 5 && n == 0 {
			return nil
		}
	}
}

// responding responds to each request with the same pieces, pauses between them, and closes the
// connection after a number of requests; never if it is 0.
func responding(limit int, pieces ...string) func(int, net.Conn, *bufio.Reader) {
	return func(_ int, c net.Conn, requests *bufio.Reader) {
		for n := 1; readRequest(requests) == nil; n++ {
			for i, p := range pieces {
				if i > 0 {
					time.Sleep(2 * time.Millisecond)
				}
				io.WriteString(c, p)
			}
			if n == limit {
				return
			}
		}
	}
}

const plain = "Content-Type: text/plain\r\n\r\n"

func TestFastCGIErrorsAreCountedByKind(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	read := func(e load.Errors) uint64 { return e.Read }
	timeout := func(e load.Errors) uint64 { return e.Timeout }
	ok := load.Stdout(plain) + load.End(0, 0)
	for _, test := range []struct {
		name, url string
		kind      func(load.Errors) uint64
		text      string
		responses bool
	}{
		{"HTTP server", fcgiScript(t, func(_ int, c net.Conn, r *bufio.Reader) {
			r.Peek(1)
			io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
		}), read, "read: fcgi: unsupported FastCGI version", false},
		{"closes", fcgiScript(t, func(_ int, _ net.Conn, r *bufio.Reader) { readRequest(r) }), read,
			"read: connection closed before a response", false},
		{"closes midway", fcgiScript(t, responding(1, load.Stdout(plain))), read, "closed in the middle", false},
		{"closes in a header", fcgiScript(t, responding(1, ok[:5])), read, "closed in the middle", false},
		{"closes before the padding", fcgiScript(t,
			responding(1, load.Stdout(plain)+load.Record(3, 1, strings.Repeat("\x00", 8), 1)[:16])), read,
			"closed in the middle", false},
		{"other request", fcgiScript(t, responding(0, load.Record(6, 2, plain, 0))), read,
			"read: record for request ID 2",
			false},
		{"overloaded", fcgiScript(t, responding(0, load.End(0, 2))), read,
			"read: the application refused the request: overloaded", false},
		{"no head", fcgiScript(t, responding(0, load.End(0, 0))), read,
			"read: the application ended the request before", false},
		{"malformed head", fcgiScript(t, responding(0, load.Stdout("<html>"+"\r\n\r\n")+load.End(0, 0))), read,
			"read: http1: ", false},
		{"another length", fcgiScript(t, responding(0, load.Stdout("Content-Length: 3\n\nab")+load.End(0, 0))), read,
			"read: body of 2 bytes, but Content-Length is 3", false},
		{"too much", fcgiScript(t, responding(0, ok+"surplus")), read, "read: received bytes after a response", true},
		{"twice", fcgiScript(t, responding(0, ok+ok)), read, "read: received bytes after a response", true},
		{"silent", fcgiScript(t, func(_ int, _ net.Conn, r *bufio.Reader) { io.Copy(io.Discard, r) }), timeout,
			"timeout: waiting for a response", false},
		{"only STDERR", fcgiScript(t, responding(0, load.Stderr("oh"))), timeout, "timeout: waiting for a response",
			false},
		{"never ends", fcgiScript(t, responding(0, load.Stdout(plain))), timeout,
			"timeout: receiving the response's body",
			false},
		{"unavailable", fcgiScript(t, responding(0, load.Stdout("Status: 503 No\r\n\r\n")+load.End(0, 0))),
			func(e load.Errors) uint64 { return e.Status }, "", true},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := run(t, load.Plan{URL: test.url, Connections: 2, Requests: 4, Timeout: timeoutFor(test.text)})
			if n := test.kind(r.Errors); n == 0 || n != r.Errors.Total() || !strings.Contains(r.Errors.First, test.text) {
				t.Errorf("errors %+v", r.Errors)
			}
			if test.responses != (r.Requests > 0) || r.FastCGI.Resent != 0 {
				t.Errorf("%d requests, %d sent again", r.Requests, r.FastCGI.Resent)
			}
		})
	}
}

// STDERR output and a nonzero exit code are no errors, but the report shows both.
func TestStderrAndExitCodeAreNoErrors(t *testing.T) {
	response := load.Stderr("PHP Warning: ") + load.Stdout(plain) + load.Stderr("oh\n") +
		load.Stdout("hello") + load.End(3, 0)
	r := run(t, load.Plan{URL: fcgiScript(t, responding(0, response)), Requests: 20, Connections: 2})
	f := r.FastCGI
	if r.Requests == 0 || r.Errors.Total() != 0 || f.Stderr != "PHP Warning: oh\n" || f.Exits != r.Requests {
		t.Errorf("%d requests, errors %+v, %+v", r.Requests, r.Errors, f)
	}
	// Each connection may have been in the middle of a response at either end.
	if each := uint64(len("PHP Warning: oh\n")); f.StderrBytes > (r.Requests+2)*each ||
		f.StderrBytes+2*each < r.Requests*each {
		t.Errorf("%d bytes for %d requests", f.StderrBytes, r.Requests)
	}
	// STDERR is also kept for failed and timed-out responses.
	for _, rest := range []string{load.End(0, 0), ""} {
		url := fcgiScript(t, responding(0, load.Stderr("panic: oh")+rest))
		r := run(t, load.Plan{URL: url, Connections: 1, Requests: 1, Timeout: timeoutFor("timeout:")})
		if r.Requests != 0 || !strings.HasPrefix(r.FastCGI.Stderr, "panic: oh") {
			t.Errorf("%d requests, %+v", r.Requests, r.FastCGI)
		}
	}
}

// FastCGI cannot announce a close. An application that closes between two responses has made no
// error; an HTTP server would have announced it.
func TestUnannouncedCloseIsRetried(t *testing.T) {
	response := load.Stdout(plain+"hello") + load.End(0, 0)
	for limit := range 6 { // 0 is no limit
		r := run(t, load.Plan{URL: fcgiScript(t, responding(limit, response)), Connections: 3, Requests: 60})
		if r.Requests != 60 || r.Errors.Total() != 0 || (limit == 0) != (r.Connects == 3) {
			t.Errorf("%d responses each: %d requests, %d connects, errors %+v, %+v", limit, r.Requests, r.Connects,
				r.Errors, r.FastCGI)
		}
	}
}

// Memory is allocated per connection and per second, not per request.
func TestFastCGIRequestsAllocateNothing(t *testing.T) {
	response := []byte(load.Stdout(plain+"hello") + load.Stderr("oh") + load.Stdout("") + load.End(0, 0))
	url := fcgiScript(t, func(_ int, c net.Conn, _ *bufio.Reader) {
		in := make([]byte, 4096) // a request comes in one piece
		for {
			n, err := c.Read(in)
			if err != nil {
				return
			}
			if !bytes.HasSuffix(in[:n], []byte("\x01\x05\x00\x01\x00\x00\x00\x00")) {
				t.Errorf("%d bytes came, without the end of STDIN", n)
			}
			c.Write(response)
		}
	})
	allocatesNothing(t, "FastCGI", load.Plan{URL: url})
}
