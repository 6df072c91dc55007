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
		testkit.Reads(t, resp.Body, `PUT /x?y "hello" map[REMOTE_USER:me]`)
		l.Close()
		_, err := c.Do(httptest.NewRequest("POST", "http://x/", nil), o)
		if e, ok := errors.AsType[*Error](err); !ok || e.Kind != CannotConnect || !e.CanRetry {
			t.Errorf("no listener: %v", err)
		}
	}
}

// The content of STDERR is passed to the request's own function.
func TestStderrReachesTheCall(t *testing.T) {
	out := wire.AppendStream(wire.AppendStream(nil, wire.Stderr, 1, []byte("oops")), wire.Stdout, 1, []byte("\nhi"))
	config := dialing(&scriptedConn{text: string(wire.AppendEnd(out, 1, wire.End{}))})
	hooks := &recorder{dial: config.Settings.DialContext}
	c := NewFastCGI(config, &FastCGI{Stderr: func(*http.Request, []byte) { t.Error("the Client's") }})
	_, text, err := sendCall(c, request(t, "GET", "http://x/", nil), &Call{Addr: "x:1", Params: new(Params), Hooks: hooks})
	testkit.Must(t, err)
	testkit.Equal(t, text+hooks.stderr, "hioops")
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
		config := dialing(&scriptedConn{text: string(test.response)})
		config.Settings.MaxIdleConnsPerHost = 1
		c := NewFastCGI(config, &FastCGI{})
		o := &Call{Addr: "host:1", Params: new(Params)}
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
