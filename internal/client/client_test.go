package client

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// scriptedConn is a connection on which a text arrives in pieces, and then the end. It drops what
// is written.
type scriptedConn struct {
	net.Conn
	text   string
	piece  int // the most that a Read returns; 0 is no limit
	closed bool
}

func (c *scriptedConn) Read(p []byte) (int, error) {
	if c.text == "" {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), cmp.Or(c.piece, len(p)))], c.text)
	c.text = c.text[n:]
	return n, nil
}

func (c *scriptedConn) Write(p []byte) (int, error)      { return len(p), nil }
func (c *scriptedConn) Close() error                     { c.closed = true; return nil }
func (c *scriptedConn) SetDeadline(time.Time) error      { return nil }
func (c *scriptedConn) SetReadDeadline(time.Time) error  { return nil }
func (c *scriptedConn) SetWriteDeadline(time.Time) error { return nil }

// dialing returns the settings of a Client that dials a connection.
func dialing(nc net.Conn) *Config {
	return &Config{Settings: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return nc, nil }}}
}

func request(t *testing.T, method, address string, body io.Reader) *http.Request {
	t.Helper()
	return testkit.Value(http.NewRequestWithContext(t.Context(), method, address, body))(t)
}

// A body is the same in whatever pieces it arrives, and whatever room its reader has. That includes
// bodies that are received into the reader's buffer, and whose end must be put back.
func TestBodyInAnyPieces(t *testing.T) {
	want := strings.Repeat("0123456789abcdef", 100)
	const next = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
	responses := map[string]string{
		"by length": fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s%s", len(want), want, next),
		"by chunks": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" +
			fmt.Sprintf("1\r\n%s\r\n%x\r\n%s\r\n2\r\n%s\r\n0\r\nSum: 42\r\n\r\n", want[:1], len(want)-3,
				want[1:len(want)-2], want[len(want)-2:]) + next,
		"until close": "HTTP/1.1 200 OK\r\n\r\n" + want,
	}
	for name, response := range responses {
		for _, piece := range []int{1, 2, 7, 100, 511, 512, 1000, 1 << 20} {
			for _, room := range []int{1, 3, 511, 512, 513, 1 << 16} {
				config := dialing(&scriptedConn{text: response, piece: piece})
				config.Settings.ReadBufferSize = minReadBuffer
				c := New(config)
				resp, err := c.RoundTrip(request(t, http.MethodGet, "http://host/", nil))
				testkit.Must(t, err)
				var got bytes.Buffer
				for b := make([]byte, room); err == nil; {
					var n int
					n, err = resp.Body.Read(b)
					got.Write(b[:n])
				}
				if got.String() != want || err != io.EOF { //nolint:errorlint // Read must not wrap it
					t.Fatalf("%s, %d at a time into %d: %d bytes, %v", name, piece, room, got.Len(), err)
				}
				if name == "by chunks" && resp.Trailer.Get("Sum") != "42" {
					t.Errorf("%s, %d at a time into %d: %v", name, piece, room, resp.Trailer)
				}
				testkit.Equal(t, c.Count().Active, 0, name, piece, "at a time into", room)
				if piece == 1<<20 && room == 1 { // bytes behind the response, or its end, were received
					testkit.Equal(t, c.Count().Idle, 0, name, "idle connections")
				}
				c.CloseIdleConnections()
			}
		}
	}
}

// FuzzTransport makes a server send any bytes, in pieces. No response causes a panic, and each is
// read the same as in one piece.
func FuzzTransport(f *testing.F) {
	for _, s := range []string{
		"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\nX: y\r\n\r\n",
		"HTTP/1.1 200 OK\r\n\r\nuntil the end",
		"HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 204 No\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc",
		"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nabc",
		"HTTP/1.0 304 Not\r\nContent-Length: 5\r\n\r\n",
	} {
		f.Add([]byte(s), 1)
		f.Add([]byte(s), len(s)/2)
		f.Add([]byte(s), len(s)-1)
	}
	f.Fuzz(func(t *testing.T, response []byte, piece int) {
		if len(response) > 1<<16 {
			t.Skip()
		}
		outcome := func(piece int) string {
			c := New(dialing(&scriptedConn{text: string(response), piece: piece}))
			defer c.CloseIdleConnections()
			resp, text, err := send(c, request(t, http.MethodGet, "http://host/", nil))
			if resp == nil {
				return err.Error()
			}
			return fmt.Sprintf("%s %v %d %v %v %q %v", resp.Status, resp.Header, resp.ContentLength, resp.Close, resp.Trailer,
				text, err)
		}
		testkit.Equal(t, outcome(max(piece, 1)), outcome(0), response, piece, "at a time, beside at once")
	})
}

// Large buffers are not kept. Kept buffers hold nothing of the last exchange.
func TestReleaseKeepsNoLargeBuffers(t *testing.T) {
	c := New(&Config{})
	x := &exchange{outgoing: outgoing{client: c}, scratch: c.newScratch()}
	s := x.scratch
	s.out, s.in = append(s.out, make([]byte, 2*maxKeptBuffer)...), make([]byte, 2*maxKeptBuffer)
	x.release()
	testkit.Equal(t, s.out == nil && s.in == nil && x.scratch == nil, true, cap(s.out), "and", len(s.in), "bytes are kept")
	x.release() // has no effect the second time
}

// The address of a host in errors does not contain a password.
func TestAddrHasNoPassword(t *testing.T) {
	for _, test := range []struct {
		k    key
		want string
	}{
		{key{host: "h", port: "80"}, "h:80"},
		{key{host: "::1", port: "80"}, "[::1]:80"},
		{key{network: "unix", address: "/s", host: "h"}, "/s"},
		{key{proxy: "http://u:secret@proxy:1"}, "proxy:1"},
		{key{proxy: "http://u:secret@proxy:1", host: "h", port: "443", tls: true}, "h:443"},
		{key{proxy: "http://u:secret@pro xy%"}, "proxy"},
	} {
		testkit.Equal(t, test.k.addr(), test.want, test.k)
	}
}

func TestErrorsReportSideAndTimeout(t *testing.T) {
	e := &Error{Side: Proxy, Kind: TimedOut, During: "connecting to", Addr: "h:1", Err: io.ErrNoProgress}
	if e.Error() != "tare: connecting to h:1: "+io.ErrNoProgress.Error() || !e.Timeout() || !e.Temporary() ||
		!errors.Is(e, io.ErrNoProgress) {
		t.Error(e)
	}
	e = &Error{Kind: CannotConnect, Err: noResponseWithin(0, "")}
	testkit.Equal(t, e.Timeout() && isTimeout(e), true, e, "is a timeout")
	var names []string
	for s := range Server + 1 {
		names = append(names, s.String())
	}
	for k := range Rejected + 1 {
		names = append(names, k.String())
	}
	testkit.Equal(t, strings.Join(names, ", "), "unknown, local, proxy, server, unknown, cannot connect, cannot send, "+
		"connection closed, malformed response, timed out, bad request body, request rejected")
}

// lateConn is a connection on which a response arrives while it is being closed, as may happen
// over TLS.
type lateConn struct {
	scriptedConn
	closing, responded chan struct{}
}

func (c *lateConn) Read(p []byte) (int, error) {
	<-c.closing
	defer func() {
		select {
		case <-c.responded:
		default:
			close(c.responded)
		}
	}()
	return c.scriptedConn.Read(p)
}

func (c *lateConn) Close() error {
	close(c.closing)
	<-c.responded
	return nil
}

// A request whose body fails has failed, whatever the server responds to the part that it received.
func TestFailedBodyFailsRequest(t *testing.T) {
	nc := &lateConn{scriptedConn{text: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
		make(chan struct{}), make(chan struct{})}
	broken := errors.New("the body is broken")
	c := New(dialing(nc))
	resp, err := c.RoundTrip(request(t, http.MethodPut, "http://host/",
		io.MultiReader(strings.NewReader("x"), iotest.ErrReader(broken))))
	testkit.Is(t, err, broken)
	testkit.Equal(t, resp, nil)
}

// A request belongs to its caller again once its response is closed, even if its body is still
// being read. The race detector checks that.
func TestRequestBelongsToCallerAfterResponse(t *testing.T) {
	before := runtime.NumGoroutine()
	address := testkit.ServeTCP(t, func(nc net.Conn) {
		_, _ = nc.Read(make([]byte, 4096))
		_, _ = io.WriteString(nc, "HTTP/1.1 413 X\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
	})
	c := New(&Config{})
	for range 20 {
		body := newStuck(false)
		r := request(t, "POST", "http://"+address, body)
		resp := testkit.Value(c.RoundTrip(r))(t)
		resp.Body.Close()
		close(body.release)
		for late := time.Now().Add(time.Minute); runtime.NumGoroutine() > before+1; time.Sleep(time.Microsecond) {
			if r.Header.Set("X-A", "b"); time.Now().After(late) {
				t.Fatal("the body is still sent")
			}
		}
	}
}

// recordingConn is a scripted connection that records what is written.
type recordingConn struct {
	scriptedConn
	written strings.Builder
}

func (c *recordingConn) Write(p []byte) (int, error) { return c.written.Write(p) }

// A proxy's client sends each User-Agent, as it sends other fields. Otherwise a server would
// receive a request other than the one that caches use.
func TestVerbatimClientSendsEveryUserAgent(t *testing.T) {
	for verbatim, want := range map[bool]string{true: "User-Agent: a\r\nUser-Agent: \r\nUser-Agent: b\r\n",
		false: "User-Agent: a\r\n"} {
		s := &recordingConn{scriptedConn: scriptedConn{text: "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"}}
		config := dialing(s)
		config.Verbatim = verbatim
		c := New(config)
		r := testkit.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://a.example/", nil))(t)
		r.Header["User-Agent"] = []string{"a", "", "b"}
		resp := testkit.Value(c.RoundTrip(r))(t)
		resp.Body.Close()
		if got := s.written.String(); !strings.Contains(got, want) ||
			strings.Count(got, "User-Agent") != strings.Count(want, "User-Agent") {
			t.Errorf("verbatim %v: sent %q, want %q", verbatim, got, want)
		}
	}
}

// Interim responses reach the hooks of a call, except 100 Continue. TestHTTP2InterimResponses shows
// the same of HTTP/2.
func TestInterimResponsesReachHooks(t *testing.T) {
	config := dialing(&scriptedConn{text: "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" +
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"})
	config.Verbatim = true
	hooks := &recorder{dial: config.Settings.DialContext}
	_, _, err := sendCall(New(config), request(t, http.MethodGet, "http://host/", nil), &Call{Hooks: hooks})
	testkit.Must(t, err)
	testkit.Equal(t, hooks.interim, []string{"Early Hintsx"})
}

type ender chan bool

func (e ender) ContextEnded() { e <- true }

// own is a context that notifies of its end by itself, in one of two ways. Its Done must not be
// called.
type own struct {
	context.Context
	t       *testing.T
	waiting []Ender
}

func (c *own) Done() <-chan struct{} { c.t.Error("Done was called"); return nil }
func (c *own) Watch(e Ender)         { c.waiting = append(c.waiting, e) }
func (c *own) Unwatch(e Ender) bool {
	i := slices.Index(c.waiting, e)
	if i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
	}
	return i >= 0
}

type afterFuncs struct {
	context.Context
	t       *testing.T
	waiting []func()
}

func (c *afterFuncs) Done() <-chan struct{} { c.t.Error("Done was called"); return nil }
func (c *afterFuncs) AfterFunc(f func()) (stop func() bool) {
	c.waiting = append(c.waiting, f)
	return func() bool { c.waiting = nil; return true }
}

func TestContextWatchNotifiesUntilStopped(t *testing.T) {
	notified := make(ender, 1)
	a := &own{Context: t.Context(), t: t}
	w := watchContext(a, notified)
	testkit.Equal(t, a.waiting, []Ender{notified}, "watched")
	w.stop(a, notified)
	testkit.Equal(t, len(a.waiting), 0, "watched after the end")
	b := &afterFuncs{Context: t.Context(), t: t}
	w = watchContext(b, notified)
	b.waiting[0]()
	<-notified
	w.stop(b, notified)
	testkit.Equal(t, b.waiting == nil, true, "the wait was stopped")
}

// The bytes sent to a SOCKS5 proxy, and the errors for its replies.
func TestSOCKSHandshake(t *testing.T) {
	const hello, login, name = "\x05\x01\x00", "\x05\x02\x00\x02", "\x05\x01\x00\x03\x01h\x00\x50"
	const ok = "\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x50"
	long := strings.Repeat("x", 255)
	for _, test := range []struct{ name, user, host, port, replies, sent, want string }{
		{"IPv4 in IPv6", "", "::ffff:192.0.2.1", "80", "\x05\x00" + ok,
			hello + "\x05\x01\x00\x01\xc0\x00\x02\x01\x00\x50", ""},
		{"IPv6", "", "2001:db8::1", "443", "\x05\x00\x05\x00\x00\x04" + long[:18],
			hello + "\x05\x01\x00\x04\x20\x01\x0d\xb8" + strings.Repeat("\x00", 11) + "\x01\x01\xbb", ""},
		{"zone", "", "fe80::1%1", "80", "\x05\x00" + ok, hello + "\x05\x01\x00\x03\x09fe80::1%1\x00\x50", ""},
		{"name", "", "h", "80", "\x05\x00\x05\x00\x00\x03\x01x\x00\x50", hello + name, ""},
		{"longest name", "", "h", "80", "\x05\x00\x05\x00\x00\x03\xff" + long + "\x00\x50", hello + name, ""},
		{"password", "u:pw@", "h", "80", "\x05\x02\x01\x00" + ok, login + "\x01\x01u\x02pw" + name, ""},
		{"password not required", "u:pw@", "h", "80", "\x05\x00" + ok, login + name, ""},

		{"wrong password", "u:pw@", "h", "80", "\x05\x02\x01\x01", login + "\x01\x01u\x02pw", "rejects user name"},
		{"no user name", ":pw@", "h", "80", "\x05\x02", login, "invalid length of user name or password"},
		{"password required", "", "h", "80", "\x05\x02", hello, "none of the offered authentication methods"},
		{"no common method", "u:pw@", "h", "80", "\x05\xff", login, "none of the offered authentication methods"},
		{"SOCKS4", "", "h", "80", "\x04\x00", hello, "SOCKS version 4, want 5"},
		{"refused", "", "h", "80", "\x05\x00\x05\x05\x00\x01", hello + name, "connection refused"},
		{"unknown reply", "", "h", "80", "\x05\x00\x05\x63\x00\x01\x00", hello + name, "unknown reply code 99"},
		{"reserved", "", "h", "80", "\x05\x00\x05\x00\x01\x01", hello + name, "reserved field is 1, want 0"},
		{"unknown address", "", "h", "80", "\x05\x00\x05\x00\x00\x09\x00", hello + name, "unknown address type 9"},
		{"cut off", "", "h", "80", "\x05\x00\x05\x00", hello + name, io.ErrUnexpectedEOF.Error()},
		{"long name", "", long + "x", "80", "\x05\x00", hello, "longer than 255 bytes"},
		{"invalid port", "", "h", "65536", "", "", `invalid port "65536"`},
		{"port 0", "", "h", "0", "", "", `invalid port "0"`},
	} {
		proxy := testkit.Value(url.Parse("socks5://" + test.user + "p"))(t)
		nc := &recordingConn{scriptedConn: scriptedConn{text: test.replies, piece: 1}}
		err := socksTunnel(nc, proxy, &key{host: test.host, port: test.port})
		if test.want != "" {
			testkit.Error(t, err, test.want, test.name)
		} else if err != nil || nc.text != "" {
			t.Errorf("%s: %v, %d bytes are left", test.name, err, len(nc.text))
		}
		testkit.Equal(t, nc.written.String(), test.sent, test.name, "sent")
	}
	nc := &recordingConn{scriptedConn: scriptedConn{piece: 1,
		text: "\x05\x00" + ok + "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"}}
	config := dialing(nc)
	config.Settings.Proxy = http.ProxyURL(&url.URL{Scheme: "socks5", Host: "p"})
	testkit.Value(New(config).RoundTrip(request(t, "GET", "http://h/", nil)))(t).Body.Close()
	testkit.Contains(t, nc.written.String(), "\x05\x01\x00\x05\x01\x00\x03\x01h\x00\x50GET / HTTP/1.1\r\n", "tunnel")
}
