package tare_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare"
)

const okHello = "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello"

// A server receives the same request as from net/http's Transport.
func TestTransportSendsWhatNetHTTPSends(t *testing.T) {
	requests := map[string]func() *http.Request{
		"GET":  func() *http.Request { return newRequest("GET", "/a%20b/c?x=%2F&y", nil) },
		"HEAD": func() *http.Request { return newRequest("HEAD", "/", nil) },
		"fields": func() *http.Request {
			r := newRequest("GET", "/", nil)
			r.Header = http.Header{"X-B": {"1", "2"}, "A": {" spaced "}, "User-Agent": {"me"},
				"Accept-Encoding": {"br"}, "Cookie": {"a=b"}}
			r.Host = "other.example:81"
			return r
		},
		"no agent": func() *http.Request {
			r := newRequest("GET", "/", nil)
			r.Header["User-Agent"] = nil
			return r
		},
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
			r := newRequest("POST", "/", io.MultiReader(strings.NewReader("body")))
			r.Trailer = http.Header{"X-Sum": {"42"}}
			return r
		},
		"close": func() *http.Request { r := newRequest("GET", "/", nil); r.Close = true; return r },
		"range": func() *http.Request {
			r := newRequest("GET", "/", nil)
			r.Header.Set("Range", "bytes=1-2")
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
		theirs := &http.Transport{DialContext: p.tr.DialContext, TLSClientConfig: p.tr.TLSClientConfig.Clone()}
		if p.mode == "unix" {
			theirs.DialContext = dialUnix(p.tr.Addr)
		}
		defer theirs.CloseIdleConnections()
		for name, request := range requests {
			var texts [2]string
			for i, rt := range []http.RoundTripper{p.tr, theirs} {
				r := request()
				r.URL.Scheme, r.URL.Host, _ = strings.Cut(p.url, "://")
				if r.Host == "" {
					r.Host = "example.org"
				}
				resp, err := rt.RoundTrip(r)
				if err != nil {
					p.Fatalf("%s: %v", name, err)
				}
				b, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				texts[i] = fmt.Sprintf("%d %s %s %v", resp.StatusCode, resp.Header.Get("Content-Type"), b,
					resp.ContentLength)
			}
			if texts[0] != texts[1] {
				p.Errorf("%s:\n%s\nnet/http:\n%s", name, texts[0], texts[1])
			}
		}
	})
}

func newRequest(method, path string, body io.Reader) *http.Request {
	r, err := http.NewRequest(method, "http://host"+path, body)
	if err != nil {
		panic("tare_test: BUG: " + err.Error())
	}
	r.Host = ""
	return r
}

// A connection serves one request after another. A concurrent request uses another connection.
func TestTransportReusesConnections(t *testing.T) {
	overAll(t, func(p *peer) {
		var conns atomic.Int32
		p.runScript(func(n int, c *scripted) {
			conns.Add(1)
			for c.respond(okHello) {
			}
		})
		for range 10 {
			if _, text := p.do("GET", "/", nil); text != "hello" {
				p.Error(text)
			}
		}
		if n := conns.Load(); n != 1 {
			p.Errorf("%d connections for ten requests", n)
		}
	})
}

// Responses of all kinds, and what becomes of their connections.
func TestTransportResponses(t *testing.T) {
	long := strings.Repeat("0123456789abcdef", 4096) // 64 KB
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	io.WriteString(z, "unzipped")
	z.Close()
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
			zipped.Len()), want: "unzipped", length: -1, reused: true},

		{name: "cut off", response: "HTTP/1.1 200 OK\nContent-Length: 6\n\nhello", want: "hello", length: 6,
			wantErr: "unexpected EOF"},
		{name: "cut off, chunked", response: "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n3\nhel\n", want: "hel",
			length: -1, wantErr: "unexpected EOF"},
		{name: "malformed chunk", response: "HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n3\nhel\nx\n", want: "hel",
			length: -1, wantErr: "malformed chunk size at byte 8"},
		{name: "no response", wantErr: "closed the connection without a response"},
		{name: "cut off in the head", response: "HTTP/1.1 200 OK\nContent-Le", wantErr: "unexpected EOF"},
		{name: "not HTTP", response: "hello hello\n\n", wantErr: "status line too short at byte 11"},
		{name: "two lengths", response: "HTTP/1.1 200 OK\nContent-Length: 5\nContent-Length: 5\n\nhello",
			wantErr: "second Content-Length"},
		{name: "length and chunks", response: "HTTP/1.1 200 OK\nContent-Length: 5\nTransfer-Encoding: chunked\n\n0\n\n",
			wantErr: "both Transfer-Encoding and Content-Length"},
		{name: "HTTP/2", response: "HTTP/2.0 200 OK\n\n", wantErr: "not HTTP/1"},
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
							c.Write(zipped.Bytes())
						}
						if !test.reused {
							return
						}
					}
					if c.respond(okHello) {
						second <- n
					}
				})
				method := test.method
				if method == "" {
					method = "POST" // is not retried
				}
				r, _ := http.NewRequest(method, p.url, nil)
				resp, text, err := p.send(r)
				checkError(p.T, err, test.wantErr)
				if resp != nil {
					if text != test.want || resp.ContentLength != test.length || resp.Close != test.close ||
						resp.Request == nil {
						p.Errorf("got %d bytes, length %d, close %v", len(text), resp.ContentLength, resp.Close)
					}
				} else if text != "" && text != test.want {
					p.Errorf("got %q before the error", text)
				}
				if _, text := p.do("GET", "/", nil); text != "hello" {
					p.Errorf("then %q", text)
				}
				if n := <-second; (n == 0) != test.reused {
					p.Errorf("the second request came on connection %d", n)
				}
			})
		})
	}
}

func checkError(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Error(err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("got %v, want an error with %q", err, want)
	case want != "" && !errors.As(err, new(*tare.TransportError)):
		t.Errorf("%T is not a TransportError: %v", err, err)
	}
}

// A response's head may be as long as the limit, and not a byte longer.
func TestTransportMaxResponseHeaderBytes(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
	for _, spare := range []int64{0, -1} {
		overAll(t, func(p *peer) {
			p.tr.MaxResponseHeaderBytes = int64(len(head)) + spare
			p.runScript(func(_ int, c *scripted) { c.respond(okHello) })
			if _, text, err := p.send(mustRequest("GET", p.url, nil)); (spare == 0) != (err == nil && text == "hello") {
				p.Errorf("%d bytes more: %q, %v", spare, text, err)
			}
		})
	}
}

// An idle connection is dropped at once if its server closes it, or if an unexpected byte arrives.
func TestTransportDropsClosedIdleConnections(t *testing.T) {
	for name, end := range map[string]func(*scripted){
		"closed":     func(c *scripted) { c.Close() },
		"stray byte": func(c *scripted) { c.writeText("x") },
	} {
		t.Run(name, func(t *testing.T) {
			overAll(t, func(p *peer) {
				var conns atomic.Int32
				ended := make(chan bool)
				p.runScript(func(n int, c *scripted) {
					conns.Add(1)
					c.respond(okHello)
					if n == 0 {
						end(c)
						ended <- true
					}
					for c.respond(okHello) {
					}
				})
				p.do("GET", "/", nil)
				<-ended
				waitFor(p.T, "the connection to be evicted", func() bool { return tare.TransportCount(p.tr).Idle == 0 })
				r, _ := http.NewRequest("POST", p.url, strings.NewReader("x")) // is not retried
				if _, text, err := p.send(r); err != nil || text != "hello" {
					p.Errorf("%q, %v", text, err)
				}
				if n := conns.Load(); n != 2 {
					p.Errorf("%d connections", n)
				}
			})
		})
	}
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for late := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("waited too long for %s", what)
		}
	}
}

// A connection that was idle long enough to be watched is used again.
func TestTransportReusesWatchedConnections(t *testing.T) {
	overAll(t, func(p *peer) {
		var conns atomic.Int32
		p.runScript(func(n int, c *scripted) {
			conns.Add(1)
			for c.respond(okHello) {
			}
		})
		for range 3 {
			if _, text := p.do("POST", "/", strings.NewReader("x")); text != "hello" {
				p.Error(text)
			}
			waitFor(p.T, "the connection to be watched", func() bool { return tare.TransportCount(p.tr).Watched == 1 })
		}
		if n := conns.Load(); n != 1 {
			p.Errorf("%d connections", n)
		}
	})
}

// If a kept connection accepts a request and closes without a response, the request is retried only
// if that is safe.
func TestTransportRetriesOnlyIfSafe(t *testing.T) {
	for _, test := range []struct {
		name    string
		request func(url string) *http.Request
		again   bool
	}{
		{"GET", func(url string) *http.Request { r, _ := http.NewRequest("GET", url, nil); return r }, true},
		{"POST", func(url string) *http.Request {
			r, _ := http.NewRequest("POST", url, strings.NewReader("x"))
			return r
		}, false},
		{"POST with a key", func(url string) *http.Request {
			r, _ := http.NewRequest("POST", url, strings.NewReader("x"))
			r.Header.Set("Idempotency-Key", "1")
			return r
		}, true},
		{"GET with a body that cannot be read again", func(url string) *http.Request {
			r, _ := http.NewRequest("GET", url, io.MultiReader(strings.NewReader("x")))
			return r
		}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			overAll(t, func(p *peer) {
				var taken atomic.Int32
				p.runScript(func(n int, c *scripted) {
					c.respond(okHello)
					if c.request() != nil { // and closes the connection
						taken.Add(1)
					}
				})
				p.do("GET", "/", nil)
				_, text, err := p.send(test.request(p.url))
				if again := err == nil && text == "hello"; again != test.again {
					p.Errorf("%q, %v", text, err)
				}
				var failure *tare.TransportError
				if !test.again && (!errors.As(err, &failure) ||
					failure.CanRetry != strings.HasPrefix(test.name, "GET")) {
					p.Errorf("%#v", failure)
				}
				if n := taken.Load(); n != 1 {
					p.Errorf("the request was read %d times without a response", n)
				}
			})
		})
	}
}

// A context that ends at any stage ends the request with its cause, and leaves nothing behind.
func TestTransportCancellationReturnsCause(t *testing.T) {
	cause := errors.New("enough")
	for _, stage := range []string{"before", "queue", "body", "head", "response"} {
		t.Run(stage, func(t *testing.T) {
			overAll(t, func(p *peer) {
				p.tr.MaxConnsPerHost = 1
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				reached := make(chan bool, 1)
				release := make(chan bool)
				p.runScript(func(n int, c *scripted) {
					if n > 0 && stage != "queue" {
						c.respond(okHello)
						return
					}
					c.r.Peek(1)
					switch stage {
					case "queue":
						reached <- true
						<-release
						c.respond(okHello)
					case "body":
						reached <- true
					case "head":
						c.writeText("HTTP/1.1 200")
						reached <- true
					case "response":
						c.writeText("HTTP/1.1 200 OK\nContent-Length: 5\n\nhe")
					}
					io.Copy(io.Discard, c.r)
				})
				r, _ := http.NewRequestWithContext(ctx, "POST", p.url, nil)
				if stage == "body" {
					r.Body = blockingBody{make(chan bool)}
					r.ContentLength = 10
				}
				if stage == "before" {
					cancel(cause)
				}
				switch stage {
				case "queue":
					first := make(chan bool)
					go func() { p.do("GET", "/", nil); close(first) }()
					<-reached
					defer func() { release <- true; <-first }()
					go func() {
						waitFor(p.T, "the queue", func() bool { return tare.TransportCount(p.tr).Waiting == 1 })
						cancel(cause)
					}()
				case "body", "head":
					go func() { <-reached; cancel(cause) }()
				}
				resp, err := p.tr.RoundTrip(r)
				if stage == "response" {
					if err != nil {
						p.Fatal(err)
					}
					b := make([]byte, 2)
					io.ReadFull(resp.Body, b)
					go cancel(cause)
					_, err = resp.Body.Read(b)
				}
				if !errors.Is(err, cause) {
					p.Errorf("got %v", err)
				}
				if stage != "queue" {
					waitFor(p.T, "the connection to be closed",
						func() bool { return tare.TransportCount(p.tr).Active == 0 })
				}
			})
		})
	}
}

// blockingBody is a body whose Read waits until it is closed.
type blockingBody struct{ closed chan bool }

func (b blockingBody) Read([]byte) (int, error) { <-b.closed; return 0, errors.New("closed") }
func (b blockingBody) Close() error             { close(b.closed); return nil }
