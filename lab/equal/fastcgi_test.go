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

	"github.com/tarehq/tare/lab/contender"
	"github.com/tarehq/tare/lab/equal"
)

// counted is a listener that counts connections, and the bytes written to them.
type counted struct {
	net.Listener
	accepted, written atomic.Int64
}

func (l *counted) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.accepted.Add(1)
		c = countedConn{c, l}
	}
	return c, err
}

type countedConn struct {
	net.Conn
	of *counted
}

func (c countedConn) Write(b []byte) (int, error) {
	c.of.written.Add(int64(len(b))) // before the client can have them
	return c.Conn.Write(b)
}

func listen(t *testing.T, network string) (net.Listener, contender.Place) {
	t.Helper()
	address := "127.0.0.1:0"
	if network == "unix" {
		address = filepath.Join(t.TempDir(), "s")
	}
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l, contender.Place{Protocol: contender.FastCGI, Address: l.Addr().String()}
}

// askFastCGI asks net/http/fcgi.
func askFastCGI(t *testing.T, network string, r equal.Request, h http.HandlerFunc) (*equal.Response, *counted) {
	t.Helper()
	l, at := listen(t, network)
	over := &counted{Listener: l}
	go fcgi.Serve(over, h)
	a, err := equal.Fetch(context.Background(), at, r)
	if err != nil {
		t.Fatal(err)
	}
	return a, over
}

// What an application is asked by FastCGI is what it is asked by HTTP.
func TestAskByFastCGI(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		for _, path := range []string{"/", "/x?y=z&a", "/" + strings.Repeat("long/", 40) + "?" + strings.Repeat("q", 70_000)} {
			r := equal.Request{Method: "GET", Path: path, Host: "a.b"}
			a, over := askFastCGI(t, network, r, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Server", "gophr")
				w.WriteHeader(http.StatusAccepted)
				fmt.Fprint(w, r.Method, " ", r.Host, r.URL.RequestURI(), " ", r.Proto)
			})
			if want := "GET a.b" + path + " HTTP/1.1"; a.Status != http.StatusAccepted || string(a.Body) != want || a.Header.Get("Server") != "gophr" || a.Header.Get("Status") != "" {
				t.Errorf("%s: %d %v %.100q, want %.100q", network, a.Status, a.Header, a.Body, want)
			}
			// Both of its answers, which are as long, came by one connection.
			if !a.KeepAlive || over.accepted.Load() != 1 || over.written.Load() != 2*int64(a.Bytes) {
				t.Errorf("%s: keep-alive %v, %d bytes; %d connections with %d bytes", network, a.KeepAlive, a.Bytes, over.accepted.Load(), over.written.Load())
			}
		}
	}
}

// The same handler answers alike by both protocols, but for the bytes.
func TestCompareAcrossProtocols(t *testing.T) {
	h := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Length", "5")
		io.WriteString(w, "hello")
	}
	byFastCGI, _ := askFastCGI(t, "unix", equal.Request{Method: "GET", Path: "/x", Host: "a.b"}, h)
	all := equal.Compare(ask(t, h), byFastCGI)
	if len(all) != 1 || all[0].What != "bytes" {
		t.Errorf("got %v", all)
	}
}

// play answers each request on a connection with the same bytes, and then closes it.
func play(t *testing.T, answer string, times int) contender.Place {
	t.Helper()
	l, at := listen(t, "tcp")
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			for in := bufio.NewReader(c); times > 0 && readRequest(in) == nil; times-- {
				if _, err := io.WriteString(c, answer); err != nil {
					break
				}
			}
			c.Close()
		}
	}()
	return at
}

// readRequest reads a request up to its empty STDIN.
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

// record is a record of request 1.
func record(kind byte, content string, padding int) string {
	return string([]byte{1, kind, 0, 1, byte(len(content) >> 8), byte(len(content)), byte(padding), 0}) + content + strings.Repeat("x", padding)
}

const (
	stdout = 6
	stderr = 7
	end    = 3

	complete = "\x00\x00\x00\x00\x00\x00\x00\x00"
)

func TestAnswersInAnyRecords(t *testing.T) {
	r := equal.Request{Method: "GET", Path: "/", Host: "a"}
	for name, test := range map[string]struct {
		answer string
		status int
		body   string
	}{
		"one":      {record(stdout, "Status: 404 Gone\r\nA: b\r\n\r\nhello", 0) + record(end, complete, 0), 404, "hello"},
		"many":     {record(stdout, "A", 7) + record(stdout, ": b\n\nhel", 255) + record(stderr, "oh", 1) + record(stdout, "lo", 0) + record(stdout, "", 3) + record(end, complete, 8), 200, "hello"},
		"location": {record(stdout, "A: b\nLocation: /\n\n", 0) + record(end, complete, 0), 302, ""},
	} {
		a, err := equal.Fetch(context.Background(), play(t, test.answer, 2), r)
		if err != nil || a.Status != test.status || a.Header.Get("A") != "b" || string(a.Body) != test.body || a.Bytes != len(test.answer) || !a.KeepAlive {
			t.Errorf("%s: %+v, %v", name, a, err)
		}
	}
	a, err := equal.Fetch(context.Background(), play(t, record(stdout, "A: b\n\n", 0)+record(end, complete, 0), 1), r)
	if err != nil || a.KeepAlive {
		t.Errorf("a closed connection passes for a kept one: %+v, %v", a, err)
	}
}

// Whatever is no answer is named.
func TestNoAnswerByFastCGI(t *testing.T) {
	head := record(stdout, "A: b\n\nhello", 0)
	for want, answer := range map[string]string{
		"unexpected EOF":                                   "",
		"FastCGI: unexpected EOF":                          head + record(end, complete, 0)[:10],
		"record of version 72: want 1":                     "HTTP/1.1 400 Bad Request\r\n\r\n",
		"record of request 256: nobody asked that":         "\x01\x06\x01\x00\x00\x00\x00\x00",
		"record of type 4: want 6, 7 or 3":                 record(4, "", 0),
		"the request was refused: protocol status 2":       record(end, "\x00\x00\x00\x00\x02\x00\x00\x00", 0),
		"end of 3 bytes: want 8":                           record(end, "\x00\x00\x00", 0),
		`output "": unexpected EOF`:                        record(end, complete, 0),
		`output "A: b\n": unexpected EOF`:                  record(stdout, "A: b\n", 0) + record(end, complete, 0),
		"malformed MIME header: ":                          record(stdout, "hello\n\n", 0) + record(end, complete, 0),
		`status ["fine"]: want one number`:                 record(stdout, "Status: fine\n\n", 0) + record(end, complete, 0),
		`status ["200" "404"]: want one number`:            record(stdout, "Status: 200\nStatus: 404\n\n", 0) + record(end, complete, 0),
		`5 bytes of body: its Content-Length says "6"`:     record(stdout, "Content-Length: 6\n\nhello", 0) + record(end, complete, 0),
		fmt.Sprintf("more than %d bytes of output", 1<<24): strings.Repeat(record(stdout, strings.Repeat("x", 1<<15), 0), 1<<9+1),
	} {
		_, err := equal.Fetch(context.Background(), play(t, answer, 1), equal.Request{Method: "GET", Path: "/", Host: "a"})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
