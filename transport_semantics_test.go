package tare_test

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
	"net/http/httptest"
	"net/http/httptrace"
	"net/http/httputil"
	"net/textproto"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/internal/testkit"
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
	for _, kind := range []string{"GET", "POST", "expect"} {
		overAll(t, func(p *peer) {
			p.serve(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Link", "</a>")
				w.WriteHeader(http.StatusEarlyHints)
				io.Copy(w, r.Body)
			})
			theirs := &http.Transport{DialContext: p.tr.DialContext, TLSClientConfig: p.tr.TLSClientConfig.Clone(),
				ExpectContinueTimeout: time.Minute}
			p.tr.ExpectContinueTimeout = time.Minute
			if p.mode == "unix" {
				theirs.DialContext = dialUnix(p.tr.Addr)
			}
			defer theirs.CloseIdleConnections()
			ask := func(rt http.RoundTripper) []string {
				c := new(recorder)
				r, _ := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), c.trace()), "GET", p.url, nil)
				if kind != "GET" {
					r, _ = http.NewRequestWithContext(r.Context(), "POST", p.url, strings.NewReader("body"))
				}
				if kind == "expect" {
					r.Header.Set("Expect", "100-continue")
				}
				resp, err := rt.RoundTrip(r)
				if err != nil {
					p.Fatal(err)
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				has := func(hook string) bool {
					c.mu.Lock()
					defer c.mu.Unlock()
					return slices.Contains(c.hooks, hook)
				}
				waitFor(p.T, "the last hooks",
					func() bool { return has("PutIdleConn <nil>") && has("WroteRequest <nil>") })
				c.mu.Lock()
				defer c.mu.Unlock()
				return c.hooks
			}
			for i := range 2 {
				got, want := ask(p.tr), ask(theirs)
				unordered := func(hook string) bool {
					return strings.HasPrefix(hook, "PutIdleConn") || strings.HasPrefix(hook, "WroteHeaderField") ||
						strings.HasPrefix(hook, "WroteRequest") || hook == "Wait100Continue"
				}
				ordered := func(hooks []string) []string { return slices.DeleteFunc(slices.Clone(hooks), unordered) }
				if !slices.Equal(ordered(got), ordered(want)) {
					p.Errorf("%s %d:\n%s\nnet/http:\n%s", kind, i, strings.Join(ordered(got), "\n"),
						strings.Join(ordered(want), "\n"))
				}
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					p.Errorf("%s %d:\n%s\nnet/http:\n%s", kind, i, strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			}
		})
	}
}

// A response may arrive while the body is being sent. Then both go on.
func TestTransportResponseMayPrecedeEndOfBody(t *testing.T) {
	overAll(t, func(p *peer) {
		p.runScript(func(n int, c *scripted) {
			for {
				r, err := http.ReadRequest(c.r)
				if err != nil {
					return
				}
				c.writeText("HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n")
				b := make([]byte, 100)
				for {
					n, err := r.Body.Read(b)
					if n > 0 {
						c.writeText(fmt.Sprintf("%x\n%s\n", n, b[:n]))
					}
					if err != nil {
						break
					}
				}
				c.writeText("0\n\n")
			}
		})
		for range 2 { // on one connection
			body, feed := io.Pipe()
			r, _ := http.NewRequest("POST", p.url, body)
			resp, err := p.tr.RoundTrip(r)
			if err != nil {
				p.Fatal(err)
			}
			b := make([]byte, 4)
			for range 5 {
				io.WriteString(feed, "echo")
				if _, err := io.ReadFull(resp.Body, b); err != nil || string(b) != "echo" {
					p.Fatalf("%q, %v", b, err)
				}
			}
			feed.Close()
			if rest, err := io.ReadAll(resp.Body); err != nil || len(rest) > 0 {
				p.Errorf("%q, %v", rest, err)
			}
			waitFor(p.T, "the connection to be kept", func() bool { return tare.TransportCount(p.tr).Idle == 1 })
		}
	})
}

// A whole response that arrives early does not cut the body off. If the body is late, that costs
// only the connection.
func TestTransportSendsBodyAfterWholeResponse(t *testing.T) {
	overAll(t, func(p *peer) {
		got := make(chan string, 2)
		p.runScript(func(n int, c *scripted) {
			for {
				r, err := http.ReadRequest(c.r)
				if err != nil {
					return
				}
				c.writeText(okHello)
				b, err := io.ReadAll(r.Body)
				got <- fmt.Sprintf("%s %v", b, err)
			}
		})
		for _, late := range []bool{false, false, true} {
			body, feed := io.Pipe()
			resp, err := p.tr.RoundTrip(mustRequest("POST", p.url, body))
			if err != nil {
				p.Fatal(err)
			}
			io.WriteString(feed, "body")
			want := "body <nil>"
			if late {
				want = "body unexpected EOF"
			} else {
				feed.Close()
			}
			if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "hello" {
				p.Errorf("%q, %v", b, err)
			}
			if text := <-got; text != want {
				p.Errorf("the server got %q, want %q", text, want)
			}
			idle := 1
			if late {
				idle = 0
			}
			waitFor(p.T, "the connection", func() bool {
				n := tare.TransportCount(p.tr)
				return n.Idle == idle && n.Active == 0
			})
			feed.Close()
		}
	})
}

// The response of a server that rejects a body and closes the connection is received.
func TestTransportReceivesResponseToRejectedBody(t *testing.T) {
	overAll(t, func(p *peer) {
		p.runScript(func(n int, c *scripted) {
			if _, err := http.ReadRequest(c.r); err == nil {
				c.writeText("HTTP/1.1 413 Too Large\nContent-Length: 2\nConnection: close\n\nno")
				if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
					half.CloseWrite()
				}
				io.CopyN(io.Discard, c.r, 1<<20) // a part of it
			}
		})
		r, _ := http.NewRequest("POST", p.url, io.LimitReader(zeros{}, 64<<20))
		resp, text, err := p.send(r)
		if err != nil || resp.StatusCode != 413 || text != "no" {
			p.Errorf("%v, %q", err, text)
		}
		waitFor(p.T, "the connection to be closed",
			func() bool { return tare.TransportCount(p.tr) == tare.TransportCount(new(tare.Transport)) })
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// If a body fails, or has another length than ContentLength, the request fails at once.
func TestTransportFailsOnBadBodies(t *testing.T) {
	bad := errors.New("bad")
	for _, test := range []struct {
		name   string
		body   func() io.Reader
		length int64
		want   string
	}{
		{"fails", func() io.Reader { return io.MultiReader(strings.NewReader("x"), errReader{bad}) }, 0, "bad"},
		{"too short", func() io.Reader { return io.MultiReader(strings.NewReader("x")) }, 5,
			"ContentLength=5 with Body length 1"},
		{"too long", func() io.Reader { return io.MultiReader(strings.NewReader("xyxyxy")) }, 5,
			"ContentLength=5 with Body length 6"},
		{"never ends", func() io.Reader { return emptyReader{} }, 5, "multiple Read calls return no data"},
	} {
		t.Run(test.name, func(t *testing.T) {
			overAll(t, func(p *peer) {
				p.runScript(func(n int, c *scripted) { c.request() })
				r, _ := http.NewRequest("POST", p.url, test.body())
				r.ContentLength = test.length
				_, _, err := p.send(r)
				checkError(p.T, err, test.want)
				var failure *tare.TransportError
				if errors.As(err, &failure) && failure.Side.String() != "local" {
					p.Errorf("%v", failure.Side)
				}
			})
		})
	}
}

// A file is sent from its current offset. If it is shorter or longer than ContentLength, the
// request fails, and the server does not take the body for complete.
func TestTransportSendsFiles(t *testing.T) {
	const skipped, size = 100, 500_000
	content := make([]byte, skipped+size)
	for i := range content {
		content[i] = byte(i * i >> 7)
	}
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	overAll(t, func(p *peer) {
		got := make(chan string, 1)
		p.serve(func(w http.ResponseWriter, r *http.Request) {
			b, err := io.ReadAll(r.Body)
			got <- fmt.Sprint(bytes.Equal(b, content[skipped:]), " ", len(b) == size, " ", err == nil)
		})
		for said, want := range map[int64]string{size: "true true true", size + 1: "", size - 1: ""} {
			f, err := os.Open(name)
			if err == nil {
				_, err = f.Seek(skipped, io.SeekStart)
			}
			if err != nil {
				p.Fatal(err)
			}
			r := mustRequest("PUT", p.url, f)
			r.ContentLength = said
			_, _, err = p.send(r)
			if whole := <-got; want != "" && (whole != want || err != nil) ||
				want == "" && strings.HasSuffix(whole, "true") {
				p.Errorf("%d bytes said: the server got %s, %v", said, whole, err)
			}
			if want == "" {
				checkError(p.T, err, fmt.Sprintf("ContentLength=%d with Body length", said))
			}
			waitFor(p.T, "the file to be closed",
				func() bool { _, err := f.Stat(); return errors.Is(err, os.ErrClosed) })
		}
	})
}

type errReader struct{ error }

func (e errReader) Read([]byte) (int, error) { return 0, e.error }

type emptyReader struct{}

func (emptyReader) Read([]byte) (int, error) { return 0, nil }

// A body that waits for 100 Continue is sent after that response, or after the timeout, or never.
func TestTransportBodyWaitsForContinue(t *testing.T) {
	for _, test := range []struct {
		answers []string // before the body was read, and after
		want    string   // what the server received
	}{
		{[]string{"HTTP/1.1 100 Continue\n\n", okHello}, "body"},
		{[]string{"", okHello}, "body"},
		{[]string{"HTTP/1.1 401 No\nContent-Length: 5\n\nhello"}, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			nw := new(testkit.Network)
			tr := &tare.Transport{ExpectContinueTimeout: time.Second,
				DialContext: func(context.Context, string, string) (net.Conn, error) { return nw.Dial() }}
			got := make(chan string, 1)
			go func() {
				c, _ := nw.Listen().Accept()
				defer c.Close()
				br := bufio.NewReader(c)
				r, _ := http.ReadRequest(br)
				io.WriteString(c, strings.ReplaceAll(test.answers[0], "\n", "\r\n"))
				b, _ := io.ReadAll(r.Body)
				if len(test.answers) > 1 {
					io.WriteString(c, strings.ReplaceAll(test.answers[1], "\n", "\r\n"))
				}
				got <- string(b)
			}()
			r, _ := http.NewRequest("PUT", "http://host/", strings.NewReader("body"))
			r.Header.Set("Expect", "100-continue")
			began := time.Now()
			resp, err := tr.RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			b, _ := io.ReadAll(resp.Body)
			if waited := time.Since(began) > 0; string(b) != "hello" || waited != (test.answers[0] == "") {
				t.Errorf("%q after %v", b, time.Since(began))
			}
			if body := <-got; body != test.want {
				t.Errorf("the server got %q", body)
			}
			tr.CloseIdleConnections()
		})
	}
}

// A response's head must arrive within the timeout, which begins at the end of the request.
func TestTransportResponseHeaderTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nw := new(testkit.Network)
		tr := &tare.Transport{ResponseHeaderTimeout: time.Second,
			DialContext: func(context.Context, string, string) (net.Conn, error) { return nw.Dial() }}
		defer tr.CloseIdleConnections()
		go func() {
			for {
				c, err := nw.Listen().Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					br := bufio.NewReader(c)
					for {
						r, err := http.ReadRequest(br)
						if err != nil {
							return
						}
						io.Copy(io.Discard, r.Body)
						if r.URL.Path == "/late" {
							time.Sleep(2 * time.Second)
						}
						io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n")
						time.Sleep(3 * time.Second) // the timeout does not apply behind the head
						io.WriteString(c, "hello")
					}
				}()
			}
		}()
		defer nw.Listen().Close()
		_, err := tr.RoundTrip(mustRequest("GET", "http://host/late", nil))
		var failure *tare.TransportError
		if !errors.As(err, &failure) || !failure.Timeout() || !errors.Is(failure, failure.Err) {
			t.Errorf("%v", err)
		}
		slow, feed := io.Pipe()
		go func() {
			time.Sleep(5 * time.Second)
			feed.Close()
		}()
		resp, err := tr.RoundTrip(mustRequest("POST", "http://host/", slow))
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(resp.Body); string(b) != "hello" {
			t.Errorf("%q, %v", b, err)
		}
	})
}

func mustRequest(method, url string, body io.Reader) *http.Request {
	r, err := http.NewRequest(method, url, body)
	if err != nil {
		panic("tare_test: BUG: " + err.Error())
	}
	return r
}

// Trailer fields are sent and received.
func TestTransportSendsAndReceivesTrailers(t *testing.T) {
	overAll(t, func(p *peer) {
		p.serve(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Trailer", "X-Sum, X-Late")
			b, _ := io.ReadAll(r.Body)
			w.Write(b)
			w.Header().Set("X-Sum", r.Trailer.Get("X-Req"))
			w.Header().Set(http.TrailerPrefix+"X-Unannounced", "u")
		})
		r := mustRequest("POST", p.url, nil)
		r.Trailer = http.Header{"X-Req": nil}
		r.Body = io.NopCloser(io.MultiReader(strings.NewReader("body"),
			onRead(func() { r.Trailer.Set("X-Req", "42") })))
		resp, err := p.tr.RoundTrip(r)
		if err != nil {
			p.Fatal(err)
		}
		if _, ok := resp.Trailer["X-Sum"]; !ok || resp.Header.Get("Trailer") != "" {
			p.Errorf("announced: %v", resp.Trailer)
		}
		if b, err := io.ReadAll(resp.Body); string(b) != "body" || err != nil {
			p.Errorf("%q, %v", b, err)
		}
		if got := fmt.Sprint(resp.Trailer); got != "map[X-Late:[] X-Sum:[42] X-Unannounced:[u]]" {
			p.Error(got)
		}
	})
}

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
		upgrade := mustRequest("GET", p.url, nil)
		upgrade.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}}
		tunnel := mustRequest("CONNECT", p.url, nil)
		for _, r := range []*http.Request{upgrade, tunnel} {
			ctx, cancel := context.WithCancel(t.Context())
			resp, err := p.tr.RoundTrip(r.WithContext(ctx))
			if err != nil {
				p.Fatal(err)
			}
			cancel() // no longer affects the connection, as in net/http
			rwc, ok := resp.Body.(io.ReadWriteCloser)
			if !ok {
				p.Fatalf("the body is a %T", resp.Body)
			}
			b := make([]byte, len("early"))
			io.ReadFull(rwc, b)
			io.WriteString(rwc, "hello")
			if _, err := io.ReadFull(rwc, b); err != nil || string(b) != "hello" {
				p.Errorf("%q, %v", b, err)
			}
			if n := tare.TransportCount(p.tr); n.Active+n.Idle > 0 {
				p.Errorf("the pool still has it: %+v", n)
			}
			rwc.Close()
		}
	})
}

// A body that ends with the connection is incomplete if TLS is cut off without close_notify.
func TestTransportDetectsTruncatedTLS(t *testing.T) {
	server, client := certificates()
	for _, cut := range []int{0, 1} {
		l := listenAt(t, "tcp", "127.0.0.1:0")
		p := &peer{T: t, l: tls.NewListener(holdingListener{l}, server)}
		p.runScript(func(_ int, c *scripted) {
			c.respond("HTTP/1.1 200 OK\n\nhello")
			below := c.Conn.(*tls.Conn).NetConn().(*holding)
			below.hold = true
			c.writeText(" there")
			below.held = below.held[:len(below.held)-cut]
			if below.release(); cut > 0 {
				below.Close()
			}
		})
		p.tr = &tare.Transport{TLSClientConfig: client}
		for _, rt := range []http.RoundTripper{p.tr, &http.Transport{TLSClientConfig: client}} {
			resp, err := rt.RoundTrip(mustRequest("GET", "https://"+l.Addr().String(), nil))
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if whole := string(b) == "hello there" && err == nil; whole != (cut == 0) ||
				cut > 0 && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%T, %d bytes cut off: %q, %v", rt, cut, b, err)
			}
		}
	}
}

// Invalid requests fail with the errors of net/http.
func TestTransportRejectsInvalidRequests(t *testing.T) {
	closed := 0
	for want, change := range map[string]func(*http.Request){
		"nil Request.URL":              func(r *http.Request) { r.URL = nil },
		"nil Request.Header":           func(r *http.Request) { r.Header = nil },
		"unsupported protocol scheme":  func(r *http.Request) { r.URL.Scheme = "gopher" },
		"no host":                      func(r *http.Request) { r.URL.Host = "" },
		`invalid method "a b"`:         func(r *http.Request) { r.Method = "a b" },
		`invalid header field name`:    func(r *http.Request) { r.Header["a b"] = []string{"x"} },
		`field value for "X-Secret"`:   func(r *http.Request) { r.Header["X-Secret"] = []string{"a\r\nb"} },
		`field value for "User-Agent"`: func(r *http.Request) { r.Header["User-Agent"] = []string{"a\nb"} },
		"space or control byte":        func(r *http.Request) { r.URL.RawQuery = "a b" },
		`invalid Host header "a/b"`:    func(r *http.Request) { r.Host = "a/b" },
		`invalid trailer field name`: func(r *http.Request) {
			r.Trailer = http.Header{"Content-Length": nil}
			r.ContentLength = -1
		},
		"ContentLength=9":    func(r *http.Request) { r.ContentLength = 9 },
		`scheme "http+unix"`: func(r *http.Request) { r.URL, _ = url.Parse("http+unix:///run/s:/") },
	} {
		tr := &tare.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
			panic("tare_test: BUG: dialed")
		}}
		r := mustRequest("POST", "http://host/", strings.NewReader("body"))
		r.Body = closeCounter{r.Body, &closed}
		change(r)
		before := closed
		if _, err := tr.RoundTrip(r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if closed != before+1 {
			t.Errorf("%q: the body was closed %d times", want, closed-before)
		}
	}
}

type closeCounter struct {
	io.Reader
	n *int
}

func (c closeCounter) Close() error { *c.n++; return nil }

// HTTP/2 is used where TLS negotiates it. The body of the request that negotiates it arrives
// complete.
func TestTransportUsesNegotiatedHTTP2(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %d %s", r.Proto, len(b), r.RemoteAddr)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	config := s.Client().Transport.(*http.Transport).TLSClientConfig
	for _, test := range []struct {
		force bool
		want  string
	}{{true, "HTTP/2.0"}, {false, "HTTP/1.1"}} {
		tr := &tare.Transport{TLSClientConfig: config, ForceAttemptHTTP2: test.force}
		seen := make(map[string]bool)
		var mu sync.Mutex
		var all sync.WaitGroup
		ask := func(body io.Reader, length int) {
			r := mustRequest("POST", s.URL, body)
			resp, err := tr.RoundTrip(r)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			b, _ := io.ReadAll(resp.Body)
			var proto, addr string
			var n int
			fmt.Sscan(string(b), &proto, &n, &addr)
			if proto != test.want || n != length || resp.Request != r {
				t.Errorf("%s", b)
			}
			mu.Lock()
			seen[addr] = true
			mu.Unlock()
		}
		for range 4 {
			all.Go(func() { ask(strings.NewReader("small"), 5) })
			all.Go(func() { ask(io.LimitReader(zeros{}, 100_000), 100_000) })
		}
		all.Wait()
		clear(seen)
		for range 5 {
			ask(nil, 0)
		}
		if len(seen) != 1 {
			t.Errorf("%d connections for requests one after another", len(seen))
		}
		if n := tare.TransportCount(tr); test.force && n.Active+n.Idle+n.Hosts > 0 {
			t.Errorf("places are left: %+v", n)
		}
		tr.CloseIdleConnections()
	}
}

// HTTP/2 without HTTP/1.1 works, with and without TLS.
func TestTransportWithoutHTTP1(t *testing.T) {
	var both, plain, over http.Protocols
	both.SetHTTP2(true)
	both.SetUnencryptedHTTP2(true)
	plain.SetUnencryptedHTTP2(true)
	over.SetHTTP2(true)
	s := httptest.NewUnstartedServer(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) }))
	s.Config.Protocols = &both
	s.Start()
	defer s.Close()
	tr := &tare.Transport{Protocols: &plain}
	defer tr.CloseIdleConnections()
	resp, err := tr.RoundTrip(mustRequest("GET", s.URL, nil))
	if err != nil {
		t.Fatal(err)
	}
	if b, _ := io.ReadAll(resp.Body); string(b) != "HTTP/2.0" {
		t.Errorf("%s", b)
	}
	resp.Body.Close()
	if c := tr.Clone(); c.Protocols == tr.Protocols || *c.Protocols != *tr.Protocols {
		t.Error("Protocols are not cloned")
	}
}

// A proxy receives absolute URLs for http, and CONNECT for https. Only the proxy receives its
// password.
func TestTransportUsesHTTPProxies(t *testing.T) {
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %v", r.RequestURI, r.Header["Proxy-Authorization"])
	})
	plain, secure := httptest.NewServer(handler), httptest.NewTLSServer(handler)
	defer plain.Close()
	defer secure.Close()
	var mu sync.Mutex
	var asked []string
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.Out.Host = r.In.Host },
		Transport: &tare.Transport{}}
	front := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.Method+" "+r.RequestURI+" "+r.Header.Get("Proxy-Authorization"))
		mu.Unlock()
		if r.Method != http.MethodConnect {
			forward.ServeHTTP(w, r)
			return
		}
		tunnelTo(w, r.Host)
	})
	for _, proxy := range []*httptest.Server{httptest.NewServer(front), httptest.NewTLSServer(front)} {
		defer proxy.Close()
		asked = nil
		where, _ := url.Parse(proxy.URL)
		where.User = url.UserPassword("u", "p")
		tr := &tare.Transport{Proxy: http.ProxyURL(where),
			TLSClientConfig: secure.Client().Transport.(*http.Transport).TLSClientConfig, ForceAttemptHTTP2: true}
		for _, address := range []string{plain.URL, secure.URL} {
			resp, err := tr.RoundTrip(mustRequest("GET", address+"/a?b", nil))
			if err != nil {
				t.Fatal(err)
			}
			if b, _ := io.ReadAll(resp.Body); string(b) != "/a?b []" {
				t.Errorf("%s: %s", address, b)
			}
		}
		tr.CloseIdleConnections()
		want := []string{"GET " + plain.URL + "/a?b Basic dTpw",
			"CONNECT " + secure.Listener.Addr().String() + " Basic dTpw"}
		if !slices.Equal(asked, want) {
			t.Errorf("the proxy was asked %q", asked)
		}
	}
	refusing := httptest.NewServer(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(407) }))
	defer refusing.Close()
	where, _ := url.Parse(refusing.URL)
	_, err := (&tare.Transport{Proxy: http.ProxyURL(where)}).RoundTrip(mustRequest("GET", secure.URL, nil))
	var failure *tare.TransportError
	if !errors.As(err, &failure) || failure.Side.String() != "proxy" || !strings.Contains(err.Error(), "407") {
		t.Errorf("%v", err)
	}
}

// tunnelTo connects a client with another server.
func tunnelTo(w http.ResponseWriter, host string) {
	to, err := net.Dial("tcp", host)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	w.WriteHeader(http.StatusOK)
	nc, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		to.Close()
		return
	}
	_ = rw.Flush()
	go func() { io.Copy(to, rw); to.Close() }()
	io.Copy(nc, to)
	nc.Close()
}

// A SOCKS5 proxy receives the server's name, and user name and password.
func TestTransportUsesSOCKSProxy(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Host) }))
	defer s.Close()
	l := listenAt(t, "tcp", "127.0.0.1:0")
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go socksProxy(c, s.Listener.Addr().String())
		}
	}()
	for user, want := range map[string]string{"u:p@": "named.example", "u:wrong@": "rejects user name and password"} {
		where, _ := url.Parse("socks5://" + user + l.Addr().String())
		tr := &tare.Transport{Proxy: http.ProxyURL(where)}
		resp, err := tr.RoundTrip(mustRequest("GET", "http://named.example/", nil))
		if err != nil {
			if !strings.Contains(err.Error(), want) {
				t.Error(err)
			}
			continue
		}
		if b, _ := io.ReadAll(resp.Body); string(b) != want {
			t.Errorf("%s", b)
		}
		tr.CloseIdleConnections()
	}
}

// socksProxy serves one client by RFC 1928, and connects it with to.
func socksProxy(c net.Conn, to string) {
	defer c.Close()
	b := make([]byte, 300)
	io.ReadFull(c, b[:4]) // two methods
	c.Write([]byte{5, 2})
	io.ReadFull(c, b[:3])
	io.ReadFull(c, b[3:4+1])
	rest := make([]byte, 20)
	n, _ := io.ReadAtLeast(c, rest, 0)
	if string(b[2:3]) != "u" || b[3] != byte(n+1) || string(b[4])+string(rest[:n]) != "p" {
		c.Write([]byte{1, 1})
		return
	}
	c.Write([]byte{1, 0})
	io.ReadFull(c, b[:5])
	io.ReadFull(c, b[5:5+int(b[4])+2])
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer server.Close()
	c.Write([]byte{5, 0, 0, 1, 0, 0, 0, 0, 0, 0})
	go io.Copy(server, c)
	io.Copy(c, server)
}

// An httputil.ReverseProxy works on a Transport, in both directions and with upgrades.
func TestTransportUnderReverseProxy(t *testing.T) {
	overAll(t, func(p *peer) {
		p.serve(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Upgrade") != "" {
				nc, rw, _ := http.NewResponseController(w).Hijack()
				defer nc.Close()
				io.WriteString(nc, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
				io.Copy(nc, rw)
				return
			}
			// first, because net/http's server stops reading when it writes
			b, _ := io.ReadAll(r.Body)
			w.Write(b)
		})
		target, _ := url.Parse(p.url)
		front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
			Transport: p.tr})
		defer front.Close()
		big := strings.Repeat("0123456789", 100_000)
		resp, err := http.Post(front.URL, "text/plain", io.MultiReader(strings.NewReader(big)))
		if err != nil {
			p.Fatal(err)
		}
		if b, _ := io.ReadAll(resp.Body); string(b) != big {
			p.Errorf("%d bytes came back", len(b))
		}
		c, err := net.Dial("tcp", front.Listener.Addr().String())
		if err != nil {
			p.Fatal(err)
		}
		defer c.Close()
		io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
		br := bufio.NewReader(c)
		resp, err = http.ReadResponse(br, nil)
		if err != nil || resp.StatusCode != 101 {
			p.Fatal(resp, err)
		}
		io.WriteString(c, "ping")
		b := make([]byte, 4)
		if _, err := io.ReadFull(br, b); string(b) != "ping" {
			p.Errorf("%q, %v", b, err)
		}
	})
}

// A handshake that takes too long fails with its own error.
func TestTransportTLSHandshakeTimeout(t *testing.T) {
	l := listenAt(t, "tcp", "127.0.0.1:0")
	tr := &tare.Transport{TLSHandshakeTimeout: 20 * time.Millisecond}
	_, err := tr.RoundTrip(mustRequest("GET", "https://"+l.Addr().String(), nil))
	var failure *tare.TransportError
	if !errors.As(err, &failure) || !failure.Timeout() || !failure.CanRetry || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v", err)
	}
}
