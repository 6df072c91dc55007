package front_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/wire/http1"
)

// keptUpstream is an upstream whose connections stay open. It sends what a request's query is.
func keptUpstream(t testing.TB) (to string) {
	return testkit.ServeTCP(t, func(nc net.Conn) {
		for in := bufio.NewReader(nc); ; {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			text, err := url.QueryUnescape(r.URL.RawQuery)
			if err != nil {
				return
			}
			if _, err := io.WriteString(nc, text); err != nil || strings.Contains(text, "X-Cut") {
				return
			}
		}
	})
}

// keepingWriter is an http.ResponseWriter that keeps what it was given: a string, which no one may
// change, or bytes of a Write that has failed, which another goroutine may still read, as that of
// an HTTP/2 stream that was reset.
type keepingWriter struct {
	header  http.Header
	err     error
	strings []string
}

func (w *keepingWriter) Header() http.Header { return w.header }
func (w *keepingWriter) WriteHeader(int)     {}

func (w *keepingWriter) Write(p []byte) (int, error) {
	if w.err == nil {
		return len(p), nil
	}
	w.strings = append(w.strings, unsafe.String(unsafe.SliceData(p), len(p)))
	return 0, w.err
}

func (w *keepingWriter) WriteString(s string) (int, error) {
	if w.strings = append(w.strings, s); w.err != nil {
		return 0, w.err
	}
	return len(s), nil
}

// The memory of a response is not reused while a ResponseWriter may still read it.
func TestWritersMayKeepStringsAndFailedWrites(t *testing.T) {
	const size = 3000
	respond := map[string]func(body string) string{
		"complete": func(body string) string { return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", size, body) },
		"chunked": func(body string) string {
			return fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", size, body)
		},
		"long": func(body string) string {
			return fmt.Sprintf("Content-Length: %d\r\n\r\n%s", 20*size, strings.Repeat(body, 20))
		},
		"cut off": func(body string) string { return "X-Cut: 1\r\nContent-Length: 9\r\n\r\n" + body[:8] },
	}
	to := keptUpstream(t)
	for name, text := range respond {
		for _, stream := range []bool{false, true} {
			c := proxyTo(conf.Proxy{To: "up", Version: "1.1", Stream: stream,
				Header: []conf.Field{{Name: "Connection"}}})
			c.Upstreams = []conf.Upstream{{Name: "up", Keepalive: 8, Servers: []conf.Server{{Addr: to}}}}
			h := newFront(t, c)
			for _, err := range []error{nil, errors.New("reset")} {
				serve := func(letter string) *keepingWriter {
					w := &keepingWriter{header: make(http.Header), err: err}
					func() {
						defer func() { _ = recover() }() // of http.ErrAbortHandler
						h.ServeHTTP(w, httptest.NewRequest("GET", "http://front.test/?"+
							url.QueryEscape("HTTP/1.1 200 OK\r\n"+text(strings.Repeat(letter, size))), nil))
					}()
					return w
				}
				serve("-") // memory is not reused after a request that dials
				first := serve("a")
				for range 10 {
					serve("b")
				}
				if err != nil && len(first.strings) == 0 {
					t.Errorf("%s: nothing was kept", name)
				}
				for _, s := range first.strings {
					if strings.Trim(s, "a") != "" {
						t.Errorf("%s, streamed %v, error %v: what was kept has changed", name, stream, err)
					}
				}
			}
		}
	}
}

// rawWriter is an http.ResponseWriter that takes heads as they were received.
type rawWriter struct {
	*httptest.ResponseRecorder
	began chan struct{} // closed when a head could pass
	raw   int           // the status of a head that has passed
}

func (w *rawWriter) HasFields() bool {
	close(w.began)
	return false
}

func (w *rawWriter) WriteRawHeader(code int, _ []byte, _ []http1.Field) { w.raw = code }

// A request's body that turns out to be too long replaces a response whose head was about to pass.
func TestRawHeadsYieldToRejectedBodies(t *testing.T) {
	to := testkit.ServeTCP(t, func(nc net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(nc)); err == nil {
			_, _ = io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\nX-A: 1\r\n\r\n")
			_, _ = io.Copy(io.Discard, nc)
		}
	})
	c := oneHost(conf.Location{Path: "/", Proxy: &conf.Proxy{To: conf.Text(to), Version: "1.1", StreamRequest: true},
		Settings: &conf.Settings{MaxBody: 10}})
	w := &rawWriter{httptest.NewRecorder(), make(chan struct{}), 0}
	body, feed := io.Pipe()
	go func() {
		_, _ = io.WriteString(feed, "begin")
		<-w.began
		_, _ = io.WriteString(feed, "too much of it")
		feed.Close()
	}()
	r := httptest.NewRequest("POST", "http://front.test/", body)
	r.ContentLength = -1
	func() {
		defer func() { _ = recover() }() // of http.ErrAbortHandler
		newFront(t, c).ServeHTTP(w, r)
	}()
	if w.raw != 0 || w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("raw %d, by a Header %d %q", w.raw, w.Code, w.Body)
	}
}

// Trailer fields pass, announced or not, and do not drop the head that passes as it was received.
func TestRawHeadsHaveTrailers(t *testing.T) {
	to := keptUpstream(t)
	const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: 1\r\nSet-Cookie: a=b; path=/u/\r\n"
	for _, serve := range []func(testing.TB, http.Handler) *testClient{serveByTare, serveHandler} {
		us := serve(t, newFront(t, proxyTo(conf.Proxy{To: conf.Text(to), Version: "1.1",
			CookiePaths: []conf.Replace{{From: "/u/", To: "/v/"}}})))
		for _, text := range []string{head + "\r\n2\r\nhi\r\n0\r\nX-T: t\r\n\r\n", head + "\r\n0\r\nx-t: t\r\n\r\n",
			head + "Trailer: X-T\r\n\r\n2\r\nhi\r\n0\r\nX-T: t\r\n\r\n",
			head + "\r\n" + strings.Repeat("4000\r\n"+strings.Repeat("x", 0x4000)+"\r\n", 9) + "0\r\nX-T: t\r\n\r\n"} {
			got := us.get("/?" + url.QueryEscape(text))
			if got.header.Get("X-A") != "1" || !slices.Equal(got.header["Set-Cookie"], []string{"a=b; path=/v/"}) ||
				got.trailer.Get("X-T") != "t" {
				t.Errorf("%v, trailer %v", got.header, got.trailer)
			}
		}
	}
}

// $upstream_http_ has the fields of the last response, also after one with X-Accel-Redirect that
// did not use the memory of the exchange.
func TestUpstreamFieldsAreOfTheLastResponse(t *testing.T) {
	to := keptUpstream(t)
	second := "/second?" + url.QueryEscape("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-B: 2\r\n\r\n")
	first := "/?" + url.QueryEscape("HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-A: 1\r\nX-Accel-Redirect: "+second+
		"\r\n\r\n")
	for _, serve := range []func(testing.TB, http.Handler) *testClient{serveByTare, serveHandler} {
		c := cached(to, conf.ProxyCache{}, conf.Cache{Name: "one", Dir: t.TempDir()})
		c.Hosts[0].Locations = append(c.Hosts[0].Locations, conf.Location{Path: "/second",
			Proxy: &conf.Proxy{To: conf.Text(to), Version: "1.1"}, Settings: &conf.Settings{
				Header: []conf.AddHeader{{Name: "X-Last", Value: "<$upstream_http_x_a|$upstream_http_x_b>"}}}})
		if got := serve(t, newFront(t, c)).get(first).header.Get("X-Last"); got != "<|2>" {
			t.Errorf("fields: %s", got)
		}
	}
}

// The end of keep-alive changes no field of a response.
func TestLastResponseOfAConnectionPassesAsReceived(t *testing.T) {
	c := proxyTo(conf.Proxy{To: conf.Text(keptUpstream(t)), Version: "1.1"})
	c.Hosts[0].Locations[0].Settings = &conf.Settings{KeepAliveRequests: 1}
	us := serveByTare(t, newFront(t, c))
	_, got := us.lines("GET", "/?"+url.QueryEscape("HTTP/1.1 200 OK\r\nz: 1\r\nContent-Length: 0\r\nETag: 2\r\n\r\n"))
	if want := []string{"z: 1", "ETag: 2", "Content-Length: 0", "Connection: close"}; !slices.Equal(got[:4], want) {
		t.Errorf("%q, want %q", got, want)
	}
}
