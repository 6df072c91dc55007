package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	netfcgi "net/http/fcgi"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	wire "github.com/tarehq/tare/internal/wire/fcgi"
)

// listen returns a listener that is closed at the end of the test.
func listen(t *testing.T, network, addr string) net.Listener {
	t.Helper()
	l := testkit.Value(net.Listen(network, addr))(t)
	t.Cleanup(func() { l.Close() })
	return l
}

// Options set all parameters and the address. The Client's settings are ignored.
func TestOptionsReplaceSettings(t *testing.T) {
	for network, at := range map[string]string{"tcp": "127.0.0.1:0", "unix": t.TempDir() + "/s"} {
		l := listen(t, network, at)
		go netfcgi.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			fmt.Fprintf(w, "%s %s %q %v", r.Method, r.URL, body, netfcgi.ProcessEnv(r))
		}))
		c := NewFastCGI(&Config{Addr: "never:1"}, &FastCGI{
			Describe: func(*Params, *http.Request, int64) error { return errors.New("called") }})
		r := httptest.NewRequest("POST", "http://never/never", strings.NewReader("hello"))
		p := new(Params)
		p.Add("REQUEST_METHOD", "PUT")
		p.Add("SERVER_PROTOCOL", "HTTP/1.1")
		p.Add("REQUEST_URI", "/x?y")
		p.Add("CONTENT_LENGTH", "5")
		p.Add("REMOTE_USER", "me")
		o := &Call{Addr: l.Addr().String(), Params: p, IsRepeatable: true}
		resp := testkit.Value(c.Do(r, o))(t)
		body, err := io.ReadAll(resp.Body)
		if want := `PUT /x?y "hello" map[REMOTE_USER:me]`; string(body) != want || err != nil {
			t.Errorf("%q %v, want %q", body, err, want)
		}
		l.Close()
		_, err = c.Do(httptest.NewRequest("POST", "http://x/", nil), o)
		if e, ok := errors.AsType[*Error](err); !ok || e.Kind != CannotConnect || !e.CanRetry {
			t.Errorf("no listener: %v", err)
		}
	}
}

// The content of STDERR is passed to the request's own function. Bytes that are not FastCGI are a
// malformed response.
func TestStderrAndMalformedResponse(t *testing.T) {
	responses := make(chan []byte, 2)
	responses <- wire.AppendEnd(wire.AppendStream(wire.AppendStream(nil, wire.Stderr, 1, []byte("oops")),
		wire.Stdout, 1,
		[]byte("Status: 404\n\nno")), 1, wire.End{})
	responses <- []byte("HTTP/1.1 400 Bad Request\r\n\r\n")
	address := testkit.ServeTCP(t, func(nc net.Conn) {
		nc.Read(make([]byte, 1<<16))
		nc.Write(<-responses)
	})
	c := NewFastCGI(&Config{}, &FastCGI{Stderr: func(*http.Request, []byte) { t.Error("the Client's") }})
	hooks := &recorder{dial: new(net.Dialer).DialContext, addr: address}
	o := &Call{Addr: hooks.addr, Params: new(Params), Hooks: hooks}
	resp, err := c.Do(httptest.NewRequest("GET", "http://x/", nil), o)
	if err != nil || resp.StatusCode != 404 || hooks.stderr != "oops" {
		t.Errorf("%v %v, and on STDERR %q", resp, err, hooks.stderr)
	}
	_, err = c.Do(httptest.NewRequest("GET", "http://x/", nil), o)
	if e, ok := errors.AsType[*Error](err); !ok || e.Kind != Malformed || e.Side != Server {
		t.Errorf("%v is not a malformed response", err)
	}
}

func TestAddFieldDropsUnsafeFields(t *testing.T) {
	var p Params
	for name, values := range (http.Header{
		"X-A": {"1", "2"}, "Cookie": {"a=1", "b=2"}, "Proxy": {"http://evil"}, "X_a": {"3"}, "Connection": {"x"},
		"Proxy-Authorization": {"secret"}, "X.a": {"4"}, "Content-Type": {"t"}, "Host": {"h"}, "None": nil,
	}) {
		p.AddField(name, values)
	}
	got := maps.Collect(p.All())
	want := map[string]string{"HTTP_X_A": "1, 2", "HTTP_COOKIE": "a=1; b=2", "HTTP_CONTENT_TYPE": "t", "HTTP_HOST": "h"}
	testkit.Equal(t, got, want)
}

// A short response that arrives with its end is a WholeBody, and its connection is free. A response
// without its end is not, but one Read returns all that has arrived.
func TestShortResponseIsWholeBody(t *testing.T) {
	stdout := func(b []byte, text string) []byte { return wire.AppendStream(b, wire.Stdout, 1, []byte(text)) }
	ended := func(b []byte) []byte { return wire.AppendEnd(b, 1, wire.End{}) }
	out := stdout(nil, "Status: 200\n\nwhole")
	for name, test := range map[string]struct {
		response []byte
		whole    bool
	}{
		"its end":                  {ended(out), true},
		"STDOUT's end, too":        {ended(wire.AppendStreamEnd(out, wire.Stdout, 1)), true},
		"no end":                   {stdout(stdout(out, " "), "b"), false},
		"more records":             {ended(stdout(stdout(nil, "Content-Length: 5\n\n"), "whole")), true},
		"more than Content-Length": {ended(stdout(stdout(nil, "Content-Length: 5\n\n"), "whole body")), false},
		"STDERR":                   {ended(wire.AppendStream(out, wire.Stderr, 1, []byte("oops"))), false},
		"a refusal":                {wire.AppendEnd(out, 1, wire.End{Status: wire.Overloaded}), false},
		"less than Content-Length": {ended(stdout(nil, "Content-Length: 6\n\nwhole")), false},
	} {
		address := testkit.ServeTCP(t, func(nc net.Conn) {
			for b := make([]byte, 1<<16); ; nc.Write(test.response) {
				if _, err := nc.Read(b); err != nil {
					return
				}
			}
		})
		c := NewFastCGI(&Config{Settings: &http.Transport{MaxIdleConnsPerHost: 1}}, &FastCGI{})
		o := &Call{Addr: address, Params: new(Params)}
		resp := testkit.Value(c.Do(httptest.NewRequest("GET", "http://x/", nil), o))(t)
		_, whole := resp.Body.(*WholeBody)
		testkit.Equal(t, whole, test.whole, name, "is whole")
		if n := c.Count(); test.whole && (n.Idle != 1 || n.Active != 0) {
			t.Errorf("%s: %+v", name, n)
		}
		if test.whole {
			testkit.Reads(t, resp.Body, "whole", name)
		}
		if name == "no end" {
			b := make([]byte, 100)
			if n, err := resp.Body.Read(b); string(b[:n]) != "whole b" || err != nil {
				t.Errorf("%s: %q, %v", name, b[:n], err)
			}
		}
		resp.Body.Close()
		c.CloseIdleConnections()
	}
}

// An application that has received a request learns by ABORT_REQUEST that the request is canceled,
// over every kind of connection, new or kept.
func TestCanceledFastCGIRequestIsAborted(t *testing.T) {
	for _, network := range networks {
		for _, isKept := range []bool{false, true} {
			s := newSite(t, protocols()[1], network)
			ctx, cancel := context.WithCancel(t.Context())
			next := make(chan wire.Piece, 1)
			s.serve(func(_ int, c speaker) {
				if isKept {
					receive(c)
					c.respond("first")
				}
				receive(c)
				cancel()
				piece, _ := c.(*fastcgiSpeaker).next()
				next <- piece
			})
			if isKept {
				s.must(s.request("GET", nil), "first")
			}
			testkit.Fails(s.the().RoundTrip(s.request("GET", nil).WithContext(ctx)))(t, "canceled")
			testkit.Equal(t, (<-next).Type, wire.AbortRequest, network, "kept", isKept)
		}
	}
}

// A response without a body that ends with a record that may not follow is an error of its body,
// and its connection is not kept.
func TestMalformedEndOfResponseWithoutBody(t *testing.T) {
	odd := string(wire.AppendStream(nil, 99, 1, []byte("odd")))
	for head, method := range map[string]string{"Content-Length: 5\n\n": "HEAD", "Status: 204\n\n": "GET",
		"Content-Length: 0\n\n": "POST"} {
		s := newSite(t, protocols()[1], "memory")
		s.serve(func(_ int, c speaker) {
			for _, _, ok := receive(c); ok; _, _, ok = receive(c) {
				_, _ = c.Write(append(wire.AppendStream(nil, wire.Stdout, 1, []byte(head)), odd...))
			}
		})
		resp := testkit.Value(s.the().RoundTrip(s.request(method, nil)))(t)
		b, err := io.ReadAll(resp.Body)
		if e, ok := errors.AsType[*Error](err); len(b) > 0 || !ok || e.Kind != Malformed {
			t.Errorf("%q: %q, %v", head, b, err)
		}
		resp.Body.Close()
		if n := s.the().Count(); n.Idle+n.Active > 0 {
			t.Errorf("%q: the connection is kept: %+v", head, n)
		}
	}
}

// Bytes that follow the end of a response cost the connection.
func TestBytesBehindFastCGIResponseCostConnection(t *testing.T) {
	response := wire.AppendEnd(wire.AppendStream(nil, wire.Stdout, 1, []byte("Status: 200\n\nhello")), 1, wire.End{})
	for name, test := range map[string]struct {
		behind []byte
		idle   int
	}{"nothing": {nil, 1}, "another response": {response, 0}} {
		s := newSite(t, protocols()[1], "memory")
		s.serve(func(_ int, c speaker) {
			receive(c)
			_, _ = c.Write(slices.Concat(response, test.behind))
			_, _ = io.Copy(io.Discard, c)
		})
		s.must(s.request("POST", nil), "hello")
		testkit.Equal(t, s.the().Count().Idle, test.idle, name)
	}
}
