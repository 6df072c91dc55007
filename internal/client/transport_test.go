package client_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

const okHello = "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello"

// A server receives the same request as from net/http's Transport.
func TestTransportSendsWhatNetHTTPSends(t *testing.T) {
	get := func(change func(r *http.Request)) func() *http.Request {
		return func() *http.Request {
			r := newRequest("GET", "/", nil)
			change(r)
			return r
		}
	}
	requests := map[string]func() *http.Request{
		"GET":  func() *http.Request { return newRequest("GET", "/a%20b/c?x=%2F&y", nil) },
		"HEAD": func() *http.Request { return newRequest("HEAD", "/", nil) },
		"fields": get(func(r *http.Request) {
			r.Header = http.Header{"X-B": {"1", "2"}, "A": {" spaced "}, "User-Agent": {"me"},
				"Accept-Encoding": {"br"}, "Cookie": {"a=b"}}
			r.Host = "other.example:81"
		}),
		"zone":        get(func(r *http.Request) { r.Host = "[fe80::1%eth0]:8080" }),
		"lower agent": get(func(r *http.Request) { r.Header["user-agent"] = []string{"a", "b"} }),
		"no agent":    get(func(r *http.Request) { r.Header["User-Agent"] = nil }),
		"close":       get(func(r *http.Request) { r.Close = true }),
		"range":       get(func(r *http.Request) { r.Header.Set("Range", "bytes=1-2") }),
		"POST":        func() *http.Request { return newRequest("POST", "/", strings.NewReader("body")) },
		"POST, empty": func() *http.Request { return newRequest("POST", "/", nil) },
		"PUT, chunked": func() *http.Request {
			return newRequest("PUT", "/", io.MultiReader(strings.NewReader("bo"), strings.NewReader("dy")))
		},
		"long": func() *http.Request {
			return newRequest("POST", "/", strings.NewReader(strings.Repeat("0123456789", 30_000)))
		},
		"long, chunked": func() *http.Request {
			return newRequest("POST", "/", io.MultiReader(strings.NewReader(strings.Repeat("0123456789", 30_000))))
		},
		"trailer": func() *http.Request {
			r := newRequest("POST", "/", nil)
			r.Trailer = http.Header{"X-Sum": nil}
			r.Body = io.NopCloser(io.MultiReader(strings.NewReader("body"), onRead(func() { r.Trailer.Set("X-Sum", "42") })))
			return r
		},
		"chunked on request": func() *http.Request {
			r := newRequest("POST", "/", strings.NewReader("body"))
			r.TransferEncoding = []string{"chunked"}
			return r
		},
	}
	describe := func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s %s %v %v %d %v %v %v %d %.20s", r.Method, r.RequestURI, r.Proto, r.Host, r.Header,
			r.TransferEncoding, r.ContentLength, r.Close, r.Trailer, err, len(b), b)
	}
	overAll(t, func(p *peer) {
		p.serve(describe)
		theirs := p.theirs()
		defer theirs.CloseIdleConnections()
		for name, request := range requests {
			var texts [2]string
			for i, rt := range []http.RoundTripper{p.tr, theirs} {
				r := request()
				r.URL.Scheme, r.URL.Host, _ = strings.Cut(p.url, "://")
				if r.Host == "" {
					r.Host = "example.org"
				}
				resp, text, err := exchange(rt, r)
				testkit.Must(p, err)
				texts[i] = fmt.Sprintf("%d %s %s %v", resp.StatusCode, resp.Header.Get("Content-Type"), text,
					resp.ContentLength)
			}
			testkit.Equal(p, texts[0], texts[1], name, "beside net/http")
		}
	})
}

func newRequest(method, path string, body io.Reader) *http.Request {
	r := mustRequest(method, "http://host"+path, body)
	r.Host = ""
	return r
}
