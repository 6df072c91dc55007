package equal_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/fcgi"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/equal"
	"github.com/tarehq/tare/internal/testkit"
)

// countingListener counts connections and the bytes written to them.
type countingListener struct {
	net.Listener
	accepted, written atomic.Int64
}

func (l *countingListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.accepted.Add(1)
		c = countingConn{c, l}
	}
	return c, err
}

type countingConn struct {
	net.Conn
	of *countingListener
}

func (c countingConn) Write(b []byte) (int, error) {
	c.of.written.Add(int64(len(b))) // before the client can receive them
	return c.Conn.Write(b)
}

func listen(t *testing.T, network string) (net.Listener, contender.Place) {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "s")
	}
	l := testkit.Value(net.Listen(network, address))(t)
	t.Cleanup(func() { l.Close() })
	return l, contender.Place{Protocol: contender.FastCGI, Address: l.Addr().String()}
}

// fetchFastCGI sends a request to net/http/fcgi.
func fetchFastCGI(t *testing.T, network string, r equal.Request, h http.HandlerFunc) (*equal.Response,
	*countingListener) {
	t.Helper()
	l, at := listen(t, network)
	over := &countingListener{Listener: l}
	go fcgi.Serve(over, h)
	a := testkit.Value(equal.Fetch(context.Background(), at, r))(t)
	return a, over
}

// An application receives the same request by FastCGI and by HTTP.
func TestFetchByFastCGI(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		for _, path := range []string{"/", "/x?y=z&a", "/" + strings.Repeat("long/", 40) + "?" +
			strings.Repeat("q", 70_000)} {
			r := equal.Request{Method: "GET", Path: path, Host: "a.b"}
			a, over := fetchFastCGI(t, network, r, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Server", "gophr")
				w.WriteHeader(http.StatusAccepted)
				fmt.Fprint(w, r.Method, " ", r.Host, r.URL.RequestURI(), " ", r.Proto)
			})
			if want := "GET a.b" + path + " HTTP/1.1"; a.Status != http.StatusAccepted || string(a.Body) != want ||
				a.Header.Get("Server") != "gophr" || a.Header.Get("Status") != "" {
				t.Errorf("%s: %d %v %.100q, want %.100q", network, a.Status, a.Header, a.Body, want)
			}
			// Both responses have the same length and used one connection.
			if !a.KeepAlive || over.accepted.Load() != 1 || over.written.Load() != 2*int64(a.Bytes) {
				t.Errorf("%s: keep-alive %v, %d bytes; %d connections with %d bytes", network, a.KeepAlive, a.Bytes,
					over.accepted.Load(), over.written.Load())
			}
		}
	}
}

// play sends the same bytes for each of some requests on a connection, and then closes it.
func play(t *testing.T, response string, times int) contender.Place {
	t.Helper()
	l, at := listen(t, "tcp")
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			for in := bufio.NewReader(c); times > 0 && readRequest(in) == nil; times-- {
				if _, err := io.WriteString(c, response); err != nil {
					break
				}
			}
			c.Close()
		}
	}()
	return at
}

// readRequest reads a request to its empty STDIN record.
func readRequest(in io.Reader) error {
	for {
		var h [8]byte
		if _, err := io.ReadFull(in, h[:]); err != nil {
			return err
		}
		n := int64(h[4])<<8 + int64(h[5]) + int64(h[6])
		if _, err := io.CopyN(io.Discard, in, n); err != nil || h[1] == 5 && n == 0 {
			return err
		}
	}
}

// record returns a record of request 1.
func record(kind byte, content string, padding int) string {
	return string([]byte{1, kind, 0, 1, byte(len(content) >> 8), byte(len(content)), byte(padding), 0}) + content +
		strings.Repeat("x", padding)
}

const (
	stdout = 6
	stderr = 7
	end    = 3

	complete = "\x00\x00\x00\x00\x00\x00\x00\x00"
)

func TestResponsesInAnyRecordsAreRead(t *testing.T) {
	r := equal.Request{Method: "GET", Path: "/", Host: "a"}
	for name, test := range map[string]struct {
		response string
		status   int
		body     string
	}{
		"one": {record(stdout, "Status: 404 Gone\r\nA: b\r\n\r\nhello", 0) + record(end, complete, 0), 404,
			"hello"},
		"many": {record(stdout, "A", 7) + record(stdout, ": b\n\nhel", 255) + record(stderr, "oh", 1) +
			record(stdout, "lo", 0) + record(stdout, "", 3) + record(end, complete, 8), 200, "hello"},
		"location": {record(stdout, "A: b\nLocation: /\n\n", 0) + record(end, complete, 0), 302, ""},
	} {
		a, err := equal.Fetch(context.Background(), play(t, test.response, 2), r)
		if err != nil || a.Status != test.status || a.Header.Get("A") != "b" || string(a.Body) != test.body ||
			a.Bytes != len(test.response) || !a.KeepAlive {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
	a, err := equal.Fetch(context.Background(), play(t, record(stdout, "A: b\n\n", 0)+record(end, complete, 0), 1), r)
	if err != nil || a.KeepAlive {
		t.Errorf("a closed connection is reported as kept: %+v, %v", a, err)
	}
}

// Each kind of invalid response has its error.
func TestInvalidFastCGIResponsesAreRejected(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	head := record(stdout, "A: b\n\nhello", 0)
	for want, response := range map[string]string{
		"unexpected EOF":                                          "",
		"FastCGI: unexpected EOF":                                 head + record(end, complete, 0)[:10],
		"record of version 72: want 1":                            "HTTP/1.1 400 Bad Request\r\n\r\n",
		"record of unknown request 256":                           "\x01\x06\x01\x00\x00\x00\x00\x00",
		"record of type 4: want 6, 7 or 3":                        record(4, "", 0),
		"the application rejected the request: protocol status 2": record(end, "\x00\x00\x00\x00\x02\x00\x00\x00", 0),
		"end record of 3 bytes: want 8":                           record(end, "\x00\x00\x00", 0),
		`output "": unexpected EOF`:                               record(end, complete, 0),
		`output "A: b\n": unexpected EOF`: record(stdout, "A: b\n", 0) +
			record(end, complete, 0),
		"malformed MIME header: ": record(stdout, "hello\n\n", 0) + record(end, complete, 0),
		`invalid Status ["fine"]: want one number`: record(stdout, "Status: fine\n\n", 0) +
			record(end, complete, 0),
		`invalid Status ["200" "404"]: want one number`: record(stdout, "Status: 200\nStatus: 404\n\n", 0) +
			record(end, complete, 0),
		`body of 5 bytes, but Content-Length is "6"`: record(stdout, "Content-Length: 6\n\nhello", 0) +
			record(end, complete, 0),
		fmt.Sprintf("more than %d bytes of output", 1<<24): strings.Repeat(record(stdout, strings.Repeat("x", 1<<15),
			0), 1<<9+1),
	} {
		_, err := equal.Fetch(context.Background(), play(t, response, 1),
			equal.Request{Method: "GET", Path: "/", Host: "a"})
		testkit.Error(t, err, want)
	}
}
