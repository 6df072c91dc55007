package client_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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
		resp, text, err := p.send(mustRequest("POST", p.url, io.LimitReader(zeros{}, 64<<20)))
		if err != nil || resp.StatusCode != 413 || text != "no" {
			p.Errorf("%v, %q", err, text)
		}
		testkit.WaitFor(p.T, "the connection to be closed",
			func() bool { return countOf(p.tr) == countOf(new(tare.Transport)) })
	})
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A file is sent from its current offset. If it is shorter or longer than ContentLength, the
// request fails, and the server does not take the body for complete.
func TestTransportSendsFiles(t *testing.T) {
	const skipped, size = 100, 500_000
	content := make([]byte, skipped+size)
	for i := range content {
		content[i] = byte(i * i >> 7)
	}
	name := filepath.Join(t.TempDir(), "file")
	testkit.Must(t, os.WriteFile(name, content, 0o600))
	overAll(t, func(p *peer) {
		got := make(chan string, 1)
		p.serve(func(w http.ResponseWriter, r *http.Request) {
			b, err := io.ReadAll(r.Body)
			got <- fmt.Sprint(bytes.Equal(b, content[skipped:]), " ", len(b) == size, " ", err == nil)
		})
		for length, want := range map[int64]string{size: "true true true", size + 1: "", size - 1: ""} {
			f, err := os.Open(name)
			if err == nil {
				_, err = f.Seek(skipped, io.SeekStart)
			}
			testkit.Must(p, err)
			r := mustRequest("PUT", p.url, f)
			r.ContentLength = length
			_, _, err = p.send(r)
			if whole := <-got; want != "" && (whole != want || err != nil) ||
				want == "" && strings.HasSuffix(whole, "true") {
				p.Errorf("%d bytes announced: the server got %s, %v", length, whole, err)
			}
			if want == "" {
				testkit.Error(p, err, fmt.Sprintf("ContentLength=%d with Body length", length))
			}
			testkit.WaitFor(p.T, "the file to be closed",
				func() bool { _, err := f.Stat(); return errors.Is(err, os.ErrClosed) })
		}
	})
}

// If a request's ContentLength is not the length of its body, the request fails as in net/http.
// Where net/http fails while it sends the body, the server may have received a part: it must not
// take that for complete.
func TestTransportChecksContentLength(t *testing.T) {
	testkit.Long(t, "it compares many requests")
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%d %v %d %v", r.ContentLength, r.TransferEncoding, len(b), err)
	}))
	defer s.Close()
	theirs, ours := new(http.Transport), new(tare.Transport)
	defer theirs.CloseIdleConnections()
	defer ours.CloseIdleConnections()
	bodies := map[string]func() io.ReadCloser{
		"nil":    func() io.ReadCloser { return nil },
		"none":   func() io.ReadCloser { return http.NoBody },
		"empty":  func() io.ReadCloser { return io.NopCloser(strings.NewReader("")) },
		"five":   func() io.ReadCloser { return io.NopCloser(strings.NewReader("hello")) },
		"long":   func() io.ReadCloser { return io.NopCloser(bytes.NewReader(make([]byte, 100_000))) },
		"hidden": func() io.ReadCloser { return io.NopCloser(io.MultiReader(strings.NewReader("hello"))) },
	}
	for name, body := range bodies {
		for _, length := range []int64{-2, -1, 0, 1, 4, 5, 6, 99_999, 100_000, 100_001, 1 << 40} {
			for _, method := range []string{"GET", "POST", "PUT", "DELETE", "HEAD"} {
				for _, again := range []bool{false, true} {
					var got [2]string
					for i, rt := range []http.RoundTripper{theirs, ours} {
						r := mustRequest(method, s.URL, nil)
						if r.Body, r.ContentLength = body(), length; again && r.Body != nil {
							r.GetBody = func() (io.ReadCloser, error) { return body(), nil }
						}
						resp, text, _ := exchange(rt, r)
						if got[i] = text; resp == nil || strings.Contains(text, "unexpected EOF") {
							got[i] = "error"
						}
					}
					// net/http reads a byte first: see docs/transport.md
					sameButChunked := got[0] != "error" && got[1] != "error" && length <= 0
					// net/http finds out after it has sent the body
					tooLong := got[1] == "error" && length > 0 && (name == "long" || name == "five" || name == "hidden")
					if got[0] != got[1] && !sameButChunked && !tooLong {
						t.Errorf("%s %s of %d, GetBody %v: %q, net/http %q", method, name, length, again, got[1],
							got[0])
					}
				}
			}
		}
	}
}

// responses returns responses with many combinations of status, fields and framing, in parts that
// are sent one after another.
func responses() (all [][2]string) {
	zipped, long := gzipped("unzipped"), strings.Repeat("0123456789abcdef", 4096)
	all = append(all, [2]string{"HTTP/1.1 200 OK\r\nContent-Length: 65536\r\n\r\n", long},
		[2]string{"HTTP/1.1 200 OK\r\n\r\n", long}, [2]string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
			"10000\r\n" + long + "\r\n2;x=y\r\nlo\r\n0\r\n\r\n"}, [2]string{"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" +
			"HTTP/1.1 102 \r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", "hello"})
	for _, status := range []string{"200 OK", "200", "200 ", "200  OK ", "204 No Content", "205 Reset Content",
		"304 Not Modified", "301 Moved", "500 Internal\x80Error", "599 ", "999 Odd"} {
		for _, fields := range []string{
			"", "Content-Length: 0\n", "Content-Length: 5\n", "Content-Length:   5  \nConnection: close\n",
			"Content-Length: 5\nConnection: Close, X-Hop\nConnection: X-More\nX-Hop: 1\n", "Connection: close\n",
			"Content-Length: 5\nConnection: keep-alive\nKeep-Alive: timeout=5\n", "Trailer: X-Sum\nContent-Length: 5\n",
			"Content-Length: 5\nPragma: no-cache\n", "Content-Length: 5\nPRAGMA: no-cache\nCache-Control: private\n",
			"PRAGMA: no-cache\ncontent-ENCODING: GZIP\nContent-Length: @\n", "Content-Length: 5\nContent-Encoding: br\n",
			"Transfer-Encoding: chunked\n", "Transfer-Encoding: chunked\nTrailer: X-Sum, x-other\nConnection: close\n",
			"Content-Encoding: gzip\nContent-Length: @\n", "Content-Encoding: GZIP\nConnection: close\n",
			"Content-Encoding: gzip\nContent-Length: 0\n", "Content-Encoding: gzip\nTransfer-Encoding: chunked\n",
			"Content-Length: 5\nX-A: 1\nx-a: 2\nX-A: \n", "Upgrade: h2c\nContent-Length: 5\n",
		} {
			body, isChunked := "hello", strings.Contains(fields, "chunked")
			switch {
			case strings.Contains(fields, "Length: 0"):
				body = ""
			case strings.Contains(strings.ToLower(fields), "gzip"):
				body = zipped
			}
			if isChunked {
				body = fmt.Sprintf("%x\r\n%s\r\n0\r\nX-Sum: 1\r\nX-Late: 2\r\n\r\n", len(body), body)
			}
			fields = strings.ReplaceAll(strings.ReplaceAll(fields, "@", fmt.Sprint(len(zipped))), "\n", "\r\n")
			all = append(all, [2]string{"HTTP/1.1 " + status + "\r\n" + fields + "\r\n", body})
			if !isChunked {
				all = append(all, [2]string{"HTTP/1.0 " + status + "\r\n" + fields + "\r\n", body})
			}
		}
	}
	return all
}

// Responses have the fields that net/http's Transport gives them, and bodies that behave in the
// same way. Connections are kept after the same ones, whatever their kind.
func TestTransportReturnsResponsesOfNetHTTP(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it compares many responses")
	for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS", "CONNECT"} {
		for i, parts := range responses() {
			if method == "CONNECT" && strings.Contains(parts[0], " 20") {
				continue // a tunnel
			}
			mode := []string{"tcp", "unix", "memory"}[i%3]
			if i%29 == 0 { // handshakes take long
				mode = "tls"
			}
			compareResponses(t, mode, parts, func(url string) *http.Request { return mustRequest(method, url, nil) })
		}
	}
	for _, fields := range []string{"", "Content-Length: 5\r\n", "Transfer-Encoding: chunked\r\n"} {
		head := "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n" + fields + "\r\n"
		compareResponses(t, "tcp", [2]string{head, "hello"}, upgradeRequest)
	}
}

func upgradeRequest(url string) *http.Request {
	r := mustRequest("GET", url, nil)
	r.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"echo"}}
	return r
}

// compareResponses sends a request with both transports to a server that responds with the parts. Then
// it sends another one, whose response tells whether its connection was kept.
func compareResponses(t *testing.T, mode string, parts [2]string, request func(url string) *http.Request) {
	t.Helper()
	p := newPeer(t, mode)
	defer p.l.Close()
	p.runScript(func(_ int, c *scripted) {
		r, kept := c.request(), false
		if r != nil && r.RequestURI != "/second" {
			_, _ = io.WriteString(c, parts[0])
			if r.Method != "HEAD" && !strings.Contains(parts[0], " 204") && !strings.Contains(parts[0], " 304") {
				_, _ = io.WriteString(c, parts[1])
				if !strings.Contains(parts[0], "Content-Length") && !strings.Contains(parts[0], "chunked") ||
					r.Header.Get("Upgrade") != "" {
					return // which ends the body
				}
			}
			r, kept = c.request(), true
		}
		if r != nil {
			c.writeText(fmt.Sprintf("HTTP/1.1 200 OK\nConnection: close\n\nkept %v", kept))
		}
	})
	theirs := p.theirs()
	defer theirs.CloseIdleConnections()
	outcome := func(rt http.RoundTripper) string {
		r := request(p.url)
		resp := testkit.Value(rt.RoundTrip(r))(t)
		text := describeResponse(resp, r)
		if r.Method == "CONNECT" {
			return text // TestTransportFollowsNewReleases shows what becomes of its connection
		}
		_, kept, err := exchange(rt, mustRequest("GET", p.url+"/second", nil))
		testkit.Must(t, err)
		return text + ", " + kept
	}
	got, want := outcome(p.tr), outcome(theirs)
	if got != want { // net/http drops a connection whose goroutine needs 50 ms to report the end of a write
		want = outcome(theirs)
	}
	testkit.Equal(t, got, want, mode, request(p.url).Method, parts, "beside net/http")
}

// describeResponse describes all fields of a response, and how its body behaves.
func describeResponse(resp *http.Response, r *http.Request) string {
	_, writes := resp.Body.(io.Writer)
	head := fmt.Sprintf("%q %d %s %d.%d %q length %d %q close %v uncompressed %v trailer %v TLS %v request %v none %v "+
		"writes %v", resp.Status, resp.StatusCode, resp.Proto, resp.ProtoMajor, resp.ProtoMinor, resp.Header,
		resp.ContentLength, resp.TransferEncoding, resp.Close, resp.Uncompressed, resp.Trailer, resp.TLS != nil,
		resp.Request == r, resp.Body == http.NoBody, writes)
	b, err := io.ReadAll(resp.Body)
	n, again := resp.Body.Read(make([]byte, 1))
	closed := resp.Body.Close()
	_, late := resp.Body.Read(make([]byte, 1))
	return head + fmt.Sprintf(" body %q %v, then %d %v, trailer %q, closed %v, fails %v", b, err, n, again,
		resp.Trailer, closed, late != nil)
}
