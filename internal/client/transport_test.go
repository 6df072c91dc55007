package client_test

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tarehq/tare"
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

// Responses of all kinds, and what becomes of their connections.
func TestTransportReturnsResponses(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 4096) // 64 KB
	zipped := gzipped("unzipped")
	for _, test := range []struct {
		name, method, response string
		want, wantErr          string
		length                 int64
		reused, close          bool
	}{
		{name: "by length", response: okHello, want: "hello", length: 5, reused: true},
		{name: "empty", response: "HTTP/1.1 200 OK\nContent-Length: 0\n\n", reused: true},
		{name: "no reason", response: "HTTP/1.1 200\nContent-Length: 5\n\nhello", want: "hello", length: 5,
			reused: true},
		{name: "long", response: "HTTP/1.1 200 OK\nContent-Length: 65536\n\n" + long, want: long, length: 65536,
			reused: true},
		{name: "chunked", response: "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n3\nhel\n2;x=y\nlo\n0\n\n",
			want: "hello", length: -1, reused: true},
		{name: "long, chunked", response: "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n10000\n" + long +
			"\n5\nhello\n0\n\n", want: long + "hello", length: -1, reused: true},
		{name: "until close", response: "HTTP/1.1 200 OK\n\nhello", want: "hello", length: -1, close: true},
		{name: "long, until close", response: "HTTP/1.1 200 OK\n\n" + long, want: long, length: -1, close: true},
		{name: "HTTP/1.0", response: "HTTP/1.0 200 OK\nContent-Length: 5\n\nhello", want: "hello", length: 5,
			close: true},
		{name: "HTTP/1.0, kept", response: "HTTP/1.0 200 OK\nContent-Length: 5\nConnection: keep-alive\n\nhello",
			want: "hello", length: 5, reused: true},
		{name: "close", response: "HTTP/1.1 200 OK\nContent-Length: 5\nConnection: close\n\nhello", want: "hello",
			length: 5, close: true},
		{name: "HEAD", method: "HEAD", response: "HTTP/1.1 200 OK\nContent-Length: 5\n\n", length: 5, reused: true},
		{name: "HEAD, chunked", method: "HEAD", response: "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n", length: -1,
			reused: true},
		{name: "204", response: "HTTP/1.1 204 No Content\n\n", reused: true},
		{name: "304", response: "HTTP/1.1 304 Not Modified\nContent-Length: 5\n\n", reused: true},
		{name: "interim", response: "HTTP/1.1 103 Early Hints\nLink: </a>\n\nHTTP/1.1 102 \n\n" + okHello,
			want: "hello", length: 5, reused: true},
		{name: "more bytes than one response", response: okHello + "HTTP/1.1 200 OK\n", want: "hello", length: 5},
		{name: "gzip", response: fmt.Sprintf("HTTP/1.1 200 OK\nContent-Encoding: gzip\nContent-Length: %d\n\n@gzip",
			len(zipped)), want: "unzipped", length: -1, reused: true},

		{name: "cut off", response: "HTTP/1.1 200 OK\nContent-Length: 6\n\nhello", want: "hello", length: 6,
			wantErr: "unexpected EOF"},
		{name: "cut off, chunked", response: "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n3\nhel\n", want: "hel",
			length: -1, wantErr: "unexpected EOF"},
		{name: "malformed chunk", response: "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n3\nhel\nx\n", want: "hel",
			length: -1, wantErr: "malformed chunk size at byte 8"},
		{name: "no response", wantErr: "closed the connection without a response"},
		{name: "cut off in the head", response: "HTTP/1.1 200 OK\nContent-Le", wantErr: "unexpected EOF"},
		{name: "not HTTP", response: "hello hello\n\n", wantErr: "status line too short at byte 11"},
		{name: "unrequested switch", response: "HTTP/1.1 101 Switching Protocols\nUpgrade: x\nConnection: upgrade\n\n",
			wantErr: "101 response without an Upgrade request"},
		{name: "interims without end", response: strings.Repeat("HTTP/1.1 102 Processing\n\n", 200),
			wantErr: "too many interim responses"},
	} {
		t.Run(test.name, func(t *testing.T) {
			overAll(t, func(p *peer) {
				second := make(chan int, 2) // the connection of the second request
				p.runScript(func(n int, c *scripted) {
					if n == 0 && c.request() != nil {
						text, isZipped := strings.CutSuffix(test.response, "@gzip")
						if c.writeText(text); isZipped {
							io.WriteString(c, zipped)
						}
						if !test.reused {
							return
						}
					}
					if c.respond(okHello) {
						second <- n
					}
				})
				method := cmp.Or(test.method, "POST") // which is not retried
				resp, text, err := p.send(mustRequest(method, p.url, nil))
				checkError(p.T, err, test.wantErr)
				if resp != nil {
					if text != test.want || resp.ContentLength != test.length || resp.Close != test.close ||
						resp.Request == nil {
						p.Errorf("got %d bytes, length %d, close %v", len(text), resp.ContentLength, resp.Close)
					}
				} else if text != "" && text != test.want {
					p.Errorf("got %q before the error", text)
				}
				_, text = p.do("GET", "/", nil)
				testkit.Equal(p, text, "hello", "then")
				testkit.Equal(p, <-second == 0, test.reused, "the connection is reused")
			})
		})
	}
}

func checkError(t *testing.T, err error, want string) {
	t.Helper()
	if want == "" {
		testkit.Check(t, err)
		return
	}
	testkit.Error(t, err, want)
	if !errors.As(err, new(*tare.TransportError)) {
		t.Errorf("%T is not a TransportError: %v", err, err)
	}
}
