package client_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/internal/client"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/tlstest"
)

// recorder records calls of hooks.
type recorder struct {
	mu    sync.Mutex
	hooks []string
}

func (c *recorder) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hooks = append(c.hooks, fmt.Sprintf(format, args...))
}

func (c *recorder) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn:              func(hostPort string) { c.note("GetConn %s", hostPort) },
		GotConn:              func(i httptrace.GotConnInfo) { c.note("GotConn %v %v", i.Reused, i.WasIdle) },
		PutIdleConn:          func(err error) { c.note("PutIdleConn %v", err) },
		GotFirstResponseByte: func() { c.note("GotFirstResponseByte") },
		Got100Continue:       func() { c.note("Got100Continue") },
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			c.note("Got1xxResponse %d %v", code, h)
			return nil
		},
		TLSHandshakeStart: func() { c.note("TLSHandshakeStart") },
		TLSHandshakeDone: func(s tls.ConnectionState, err error) {
			c.note("TLSHandshakeDone %v %v", s.HandshakeComplete, err)
		},
		WroteHeaderField: func(k string, v []string) { c.note("WroteHeaderField %s %v", k, v) },
		WroteHeaders:     func() { c.note("WroteHeaders") },
		Wait100Continue:  func() { c.note("Wait100Continue") },
		WroteRequest:     func(i httptrace.WroteRequestInfo) { c.note("WroteRequest %v", i.Err) },
	}
}

// The hooks are called as net/http's Transport calls them. That calls them from two goroutines, so
// calls without a fixed order are compared without it.
func TestTransportCallsTraceHooksAsNetHTTP(t *testing.T) {
	for _, kind := range []string{"GET", "POST", "expect", "expect at once"} {
		overAll(t, func(p *peer) { testTraceHooks(p, kind, false) })
		t.Run("HTTP/2", func(t *testing.T) { testTraceHooks(newPeer(t, "tcp"), kind, true) })
	}
}

func testTraceHooks(p *peer, kind string, isHTTP2 bool) {
	handler := func(w http.ResponseWriter, r *http.Request) {
		if !isHTTP2 || !strings.HasPrefix(kind, "expect") { // over HTTP/2, net/http's server sends one interim response
			w.Header().Set("Link", "</a>")
			for _, status := range []int{100, 100, 103} {
				w.WriteHeader(status)
			}
		}
		io.Copy(w, r.Body)
	}
	if isHTTP2 {
		s := httptest.NewUnstartedServer(http.HandlerFunc(handler))
		s.EnableHTTP2 = true
		s.StartTLS()
		defer s.Close()
		p.url, p.tr.TLSClientConfig = s.URL, s.Client().Transport.(*http.Transport).TLSClientConfig
	} else {
		p.serve(handler)
	}
	if p.tr.ForceAttemptHTTP2 = isHTTP2; kind != "expect at once" {
		p.tr.ExpectContinueTimeout = time.Minute
	}
	theirs := p.theirs()
	defer theirs.CloseIdleConnections()
	events := func(rt http.RoundTripper) []string {
		c := new(recorder)
		r := mustRequest("GET", p.url, nil)
		if kind != "GET" {
			r = mustRequest("POST", p.url, strings.NewReader("body"))
		}
		if strings.HasPrefix(kind, "expect") || kind == "GET" && !isHTTP2 {
			r.Header.Set("Expect", "100-continue")
		}
		_, _, err := exchange(rt, r.WithContext(httptrace.WithClientTrace(p.Context(), c.trace())))
		testkit.Must(p, err)
		has := func(hook string) bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return slices.Contains(c.hooks, hook)
		}
		testkit.WaitFor(p.T, "the last hooks",
			func() bool { return (isHTTP2 || has("PutIdleConn <nil>")) && has("WroteRequest <nil>") })
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.hooks
	}
	for i := range 2 {
		got, want := events(p.tr), events(theirs)
		unordered := func(hook string) bool {
			return strings.HasPrefix(hook, "PutIdleConn") || isHTTP2 && strings.HasPrefix(hook, "WroteHeaderField") ||
				strings.HasPrefix(hook, "WroteRequest") || hook == "Wait100Continue" ||
				isHTTP2 && hook == "WroteHeaders" // the response may arrive before net/http's call
		}
		ordered := func(hooks []string) []string { return slices.DeleteFunc(slices.Clone(hooks), unordered) }
		testkit.Equal(p, ordered(got), ordered(want), kind, i, "beside net/http")
		slices.Sort(got)
		slices.Sort(want)
		testkit.Equal(p, got, want, kind, i, "beside net/http")
	}
}

func mustRequest(method, url string, body io.Reader) *http.Request {
	r, err := http.NewRequest(method, url, body)
	if err != nil {
		panic("tare_test: BUG: " + err.Error())
	}
	return r
}

// onRead is called at the end of a body.
type onRead func()

func (f onRead) Read([]byte) (int, error) { f(); return 0, io.EOF }

// A connection that switches protocols belongs to the caller. So does a tunnel.
func TestTransportUpgradedConnectionBelongsToCaller(t *testing.T) {
	overAll(t, func(p *peer) {
		p.runScript(func(n int, c *scripted) {
			r := c.request()
			if r == nil {
				return
			}
			if r.Method == "CONNECT" {
				c.writeText("HTTP/1.1 200 OK\nContent-Length: 3\n\nearly")
			} else {
				c.writeText("HTTP/1.1 101 Switching Protocols\nConnection: Upgrade\nUpgrade: echo\n\nearly")
			}
			io.Copy(c, c.r)
		})
		for _, r := range []*http.Request{upgradeRequest(p.url), mustRequest("CONNECT", p.url, nil)} {
			ctx, cancel := context.WithCancel(t.Context())
			resp := testkit.Value(p.tr.RoundTrip(r.WithContext(ctx)))(p)
			cancel() // no longer affects the connection, as in net/http
			rwc, ok := resp.Body.(io.ReadWriteCloser)
			if !ok {
				p.Fatalf("the body is a %T", resp.Body)
			}
			testkit.Receives(p, rwc, "early")
			io.WriteString(rwc, "hello")
			testkit.Receives(p, rwc, "hello")
			if n := countOf(p.tr); n.Active+n.Idle > 0 {
				p.Errorf("the pool still has it: %+v", n)
			}
			rwc.Close()
		}
	})
}

// Invalid requests fail over both versions, with the errors of net/http unless it sends them.
func TestTransportRejectsInvalidRequests(t *testing.T) {
	closed := 0
	field := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header[name] = []string{value} }
	}
	traced := httptrace.WithClientTrace(t.Context(), new(recorder).trace())
	type rows map[string]func(*http.Request)
	asTheirs := rows{
		"nil Request.URL":                     func(r *http.Request) { r.URL = nil },
		"nil Request.Header":                  func(r *http.Request) { r.Header = nil },
		"unsupported protocol scheme":         func(r *http.Request) { r.URL.Scheme = "gopher" },
		`scheme "http+unix"`:                  func(r *http.Request) { r.URL, _ = url.Parse("http+unix:///run/s:/") },
		`invalid method "a b"`:                func(r *http.Request) { r.Method = "a b" },
		`invalid header field name`:           field("a b", "x"),
		`header field value for "X-Secret"`:   field("X-Secret", "a\r\nb"),
		`header field value for "User-Agent"`: field("User-Agent", "a\nb"),
		`header field value for "Connection"`: field("Connection", "close\r\nA: b"), // fields that are not sent
		`header field value for "Host"`:       field("Host", "a\r\nb"),
		`trailer field value for "A"`:         func(r *http.Request) { r.Trailer = http.Header{"A": {"b\r\nc: d"}} },
	}
	ours := rows{
		"no host":                   func(r *http.Request) { r.URL.Host = "" },
		"space or control byte":     func(r *http.Request) { r.URL.RawQuery = "a b" },
		`invalid Host header "a/b"`: func(r *http.Request) { r.Host = "a/b" },
		"ContentLength=9":           func(r *http.Request) { r.ContentLength = 9 },
		`invalid trailer field name`: func(r *http.Request) {
			r.Trailer, r.ContentLength = http.Header{"Content-Length": nil}, -1
		},
		`field value for ":protocol"`: func(r *http.Request) {
			r.Method, r.Header[":protocol"] = "CONNECT", []string{"a\r\nb"}
		},
	}
	for isOurs, all := range map[bool]rows{true: ours, false: asTheirs} {
		for want, change := range all {
			for _, protocols := range []*http.Protocols{nil, onlyHTTP2()} {
				if protocols == nil && strings.Contains(want, ":protocol") {
					continue // it has no such field
				}
				theirs := &http.Transport{Protocols: protocols,
					DialContext: func(context.Context, string, string) (net.Conn, error) {
						if protocols == nil {
							t.Errorf("%s: dialed", want)
						}
						client, server := testkit.Pair()
						server.Close()
						return client, nil
					}}
				for _, rt := range []http.RoundTripper{likeTheirs(theirs), theirs} {
					if isOurs && rt == theirs {
						continue
					}
					r := mustRequest("POST", "http://host/", strings.NewReader("body")).WithContext(traced)
					r.Body = closeCounter{r.Body, &closed}
					change(r)
					before := closed
					testkit.Fails(rt.RoundTrip(r))(t, want)
					testkit.Equal(t, closed, before+1, want, "closed")
					rt.(interface{ CloseIdleConnections() }).CloseIdleConnections()
				}
			}
		}
	}
}

type closeCounter struct {
	io.Reader
	n *int
}

func (c closeCounter) Close() error { *c.n++; return nil }

func listenAt(t testing.TB, network, address string) net.Listener {
	t.Helper()
	l := testkit.Value(net.Listen(network, address))(t)
	t.Cleanup(func() { l.Close() })
	return l
}

// peer is a server, with the Transport that sends requests to it.
type peer struct {
	*testing.T
	mode string
	tr   *tare.Transport
	l    net.Listener
	url  string
}

// overAll runs a test over every kind of connection.
func overAll(t *testing.T, test func(*peer)) {
	t.Helper()
	for _, mode := range []string{"memory", "tcp", "tls", "unix"} {
		t.Run(mode, func(t *testing.T) { test(newPeer(t, mode)) })
	}
}

func newPeer(t *testing.T, mode string) *peer {
	p := &peer{T: t, mode: mode, tr: &tare.Transport{}, url: "http://host"}
	switch mode {
	case "memory":
		nw := new(testkit.Network)
		p.l = nw.Listen()
		t.Cleanup(func() { p.l.Close() })
		p.tr.DialContext = func(context.Context, string, string) (net.Conn, error) { return nw.Dial() }
	case "unix":
		p.l = listenAt(t, "unix", filepath.Join(t.TempDir(), "s"))
		p.tr.Addr = p.l.Addr().String()
	case "tcp":
		p.l = listenAt(t, "tcp", "127.0.0.1:0")
		p.url = "http://" + p.l.Addr().String()
	case "tls":
		l := listenAt(t, "tcp", "127.0.0.1:0")
		server, client := tlstest.Configs()
		p.l, p.url, p.tr.TLSClientConfig = tls.NewListener(l, server), "https://"+l.Addr().String(), client
	}
	t.Cleanup(p.tr.CloseIdleConnections)
	return p
}

// theirs returns net/http's Transport with the settings of the peer's.
func (p *peer) theirs() *http.Transport {
	theirs := &http.Transport{DialContext: p.tr.DialContext, TLSClientConfig: p.tr.TLSClientConfig.Clone(),
		ExpectContinueTimeout: p.tr.ExpectContinueTimeout, ForceAttemptHTTP2: p.tr.ForceAttemptHTTP2}
	if p.mode == "unix" {
		theirs.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", p.tr.Addr)
		}
	}
	return theirs
}

// serve makes net/http serve the peer.
func (p *peer) serve(h http.HandlerFunc) *http.Server {
	return p.serveWith(&http.Server{Handler: h})
}

func (p *peer) serveWith(s *http.Server) *http.Server {
	s.ErrorLog = log.New(io.Discard, "", 0)
	done := make(chan struct{})
	go func() { _ = s.Serve(p.l); close(done) }()
	p.Cleanup(func() { s.Close(); <-done })
	return s
}

// script is what a peer does on one of its connections, which are numbered from 0.
type script func(n int, c *scripted)

// scripted is a peer's end of a connection.
type scripted struct {
	net.Conn
	r *bufio.Reader
	t *testing.T
}

// request reads a request and its body.
func (c *scripted) request() *http.Request {
	r, err := http.ReadRequest(c.r)
	if err != nil {
		return nil
	}
	b, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(b))
	return r
}

// writeText writes text. It converts line ends to CRLF.
func (c *scripted) writeText(text string) {
	_, _ = io.WriteString(c, strings.ReplaceAll(text, "\n", "\r\n"))
}

// respond reads a request and writes text. It reports whether there was a request.
func (c *scripted) respond(text string) bool {
	if c.request() == nil {
		return false
	}
	c.writeText(text)
	return true
}

// runScript makes the peer run a script on each connection, and close the connection afterwards.
func (p *peer) runScript(s script) {
	wait := testkit.Accept(p.l, func(n int, c net.Conn) { s(n, &scripted{c, bufio.NewReader(c), p.T}) })
	p.Cleanup(func() {
		p.tr.CloseIdleConnections()
		p.l.Close()
		wait()
	})
}

func (p *peer) send(r *http.Request) (*http.Response, string, error) {
	ctx, cancel := context.WithTimeout(r.Context(), 20*time.Second)
	defer cancel()
	return exchange(p.tr, r.WithContext(ctx))
}

// exchange sends a request and reads the response to its end.
func exchange(rt http.RoundTripper, r *http.Request) (*http.Response, string, error) {
	resp, err := rt.RoundTrip(r)
	if err != nil {
		return nil, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp, string(b), err
}

// onlyHTTP2 is HTTP/2 without TLS.
func onlyHTTP2() *http.Protocols {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	return p
}

func gzipped(text string) string {
	var b strings.Builder
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, text)
	_ = z.Close()
	return b.String()
}

// countOf returns the numbers of a Transport's connections, which its methods do not show.
func countOf(tr *tare.Transport) client.Count {
	c := (*client.Client)(reflect.ValueOf(tr).Elem().FieldByName("client").UnsafePointer())
	if c == nil {
		return client.Count{} // before the first request
	}
	return c.Count()
}
