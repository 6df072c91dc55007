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
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/tarehq/tare/front/files"
	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/wire/http1"
)

// A response is the same, and variables show the same of it, whether its head passes as it was
// received or stored (tare's server), or by a Header (net/http's).
func TestRawHeadsEqualHeaders(t *testing.T) {
	t.Parallel()
	to := keptUpstream(t)
	heads := []string{
		"200 content-length: 4|x-a: 1|ETag: \"x\"|", "200 Content-Length: 4|X-A: 1|x-a: 2|Content-Type: text/html|",
		"404 Content-Length: 4|X-A: 1|", "500 Content-Length: 4|WWW-Authenticate: Basic|",
		"204 X-A: 1|", "304 etag: 1|",
		"302 Content-Length: 4|location: http://UP/x|X-A: 1|",
		"302 Content-Length: 4|Location: /x|refresh: 1; url=http://UP/|",
		"200 Content-Length: 4|set-cookie: a=b; path=/u/|X-A: 1|Set-Cookie: c=d|",
		"200 Content-Length: 4|X-Accel-Redirect: /other|Set-Cookie: e=f|X-A: 1|",
		"200 Content-Length: 4|x-accel-buffering: no|",
		"200 Content-Length: 4|X-Accel-Limit-Rate: 100k|X-A: 1|",
		"200 Content-Length: 4|Connection: X-A, close|X-A: 1|",
		"200 Content-Length: 4|connection: Keep-Alive|X-A: 1|Proxy-Connection: x|Upgrade: y|",
		"200 content-length: 4|x-pad: 1|Server: x|",
		"200 Content-Length: 4|Cache-Control: no-cache|Expires: x|Last-Modified: Mon, 02 Jan 2006 15:04:05 GMT|",
		"200 Content-Length: 4|date: Mon, 02 Jan 2006 15:04:05 GMT|X-A: 1|Vary: X-A|Vary: X-B|Accept-Ranges: bytes|",
		"200 Content-Length: 4|Status: 404|Trailer: X-T|", "200 Transfer-Encoding: chunked|\r\n1\r\nx\r\n0\r\n\r\n",
	}
	const cached = "proxy_cache kept; proxy_cache_valid any 1h; proxy_cache_lock on; "
	for name, directives := range map[string]string{
		"plain":        "",
		"hide":         "proxy_hide_header x-A; proxy_hide_header Location; proxy_pass_header Server; proxy_pass_header X-Accel-Buffering;",
		"ignore":       "proxy_ignore_headers X-Accel-Redirect X-Accel-Buffering;",
		"redirects":    "proxy_redirect /x /y;",
		"cookies":      "proxy_cookie_path /u/ /v/;",
		"intercept":    "proxy_intercept_errors on; error_page 500 /other;",
		"added":        "add_header X-A $upstream_http_x_a+; add_header X-Sent $sent_http_x_a always;",
		"replaced":     "add_header Etag y;",
		"expires":      "expires 1h;",
		"gzip":         "gzip on; gzip_min_length 1;",
		"noChunks":     "chunked_transfer_encoding off;",
		"rate":         "limit_rate 100k;",
		"cached":       cached,
		"cached, hide": cached + "proxy_hide_header X-A; proxy_hide_header Date; add_header X-A $upstream_http_x_a+;",
		"cached, changed": cached + "proxy_redirect /x /y; proxy_cookie_path /u/ /v/; proxy_ignore_headers Set-Cookie; " +
			"proxy_intercept_errors on; error_page 500 /other;",
		"cached, ranges": cached + "proxy_force_ranges on;",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			heads, isCached := heads, strings.HasPrefix(directives, cached)
			if isCached { // whether a miss announces a short body depends on the time
				heads = heads[:len(heads)-1]
			}
			directives += "proxy_http_version 1.1; location / { proxy_pass http://" + to + "; } location /other { return 202 other; }"
			ours := compared(t, directives, to, heads, serveByTare)
			theirs := compared(t, directives, to, heads, serveHandler)
			for i := range theirs {
				testkit.Equal(t, ours[i], theirs[i], heads[i/3], "as received, and by a Header")
			}
			hits := strings.Count(strings.Join(ours, ""), " HIT")
			testkit.Equal(t, hits > len(heads)/2, isCached, hits, "hits")
		})
	}
}

// A file's response is the same, and variables show the same of it, whether its head is sent as it was
// made once (tare's server) or by a Header (net/http's).
func TestRawHeadsOfFilesEqualHeaders(t *testing.T) {
	t.Parallel()
	root := site(t, "x.txt", "x.txt.gz", "index.html", "none", "empty", "d/x.txt")
	testkit.Must(t, os.Truncate(filepath.Join(root, "empty"), 0))
	requests := []string{"GET /x.txt", "HEAD /x.txt", "GET /", "GET /none", "HEAD /empty", "GET /empty", "GET /alias.html",
		"GET /x.txt Range bytes=1-2", "GET /x.txt If-None-Match *", "GET /missing", "GET /d"}
	for name, directives := range map[string]string{
		"plain": "", "types": "default_type a/b; charset utf-8;", "no type": `default_type ""; types {}`,
		"added": "add_header X-A $sent_http_content_length+; add_header Cache-Control public;", "etag": "etag off; max_ranges 0;",
		"replaced": "add_header Etag y; add_header Last-Modified '';", "expires": "expires 1h;", "error": "error_page 404 /x.txt;",
		"precompressed": "gzip_static on; gzip_vary on;", "rate": "limit_rate 100k;",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			all := make(map[bool][]string)
			for _, isOurs := range []bool{true, false} {
				serve, log := serveHandler, filepath.Join(t.TempDir(), "log")
				if isOurs {
					serve = serveByTare
				}
				client := serve(t, confFront(t, `log_format f "$status $body_bytes_sent $bytes_sent $sent_http_etag "
					"$sent_http_x_a $sent_http_content_length $sent_http_last_modified";`, "access_log "+log+" f; root "+root+
					"; location = /alias.html { alias "+root+"/x.txt; }"+directives, nil))
				for _, request := range requests {
					part := strings.SplitN(request+" Accept-Encoding gzip", " ", 5)
					got := client.do(part[0], part[1], nil, part[2], part[3])
					for _, name := range []string{"Date", "Connection", "Expires"} { // times, and what the server decides
						got.header.Del(name)
					}
					all[isOurs] = append(all[isOurs], fmt.Sprintf("%s: %d %q %v", request, got.status, got.body, got.header))
				}
				for i, line := range awaitLines(t, log, len(requests)) {
					all[isOurs][i] += " log: " + line
				}
			}
			testkit.Equal(t, strings.Join(all[true], ""), strings.Join(all[false], ""), "as it was made, and by a Header")
		})
	}
}

// A handler that calls that of a directory finds the response's fields in the Header afterwards.
func TestFilesFillHeaderForCallers(t *testing.T) {
	h := testkit.Value(files.New(files.Config{Dir: site(t, "x.txt"), CacheControl: "no-cache"}))(t)
	defer h.Close()
	var seen []http.Header
	for _, serve := range []func(testing.TB, http.Handler) *testClient{serveByTare, serveHandler} {
		done := make(chan http.Header, 1)
		client := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.ServeHTTP(w, r)
			done <- w.Header().Clone()
		}))
		for range 2 { // the connection is used again
			client.get("/x.txt")
			seen = append(seen, <-done)
		}
	}
	testkit.Equal(t, seen[1].Get("Cache-Control"), "no-cache")
	for _, header := range seen[:3] {
		testkit.Equal(t, header, seen[3], "the Header, on tare's server and on net/http's")
	}
}

// compared returns the responses of a proxy, with their lines in the access log.
func compared(t *testing.T, directives, to string, heads []string, serve func(testing.TB, http.Handler) *testClient) (
	all []string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	client := serve(t, confFront(t, `log_format f "$status $body_bytes_sent $bytes_sent $upstream_http_x_a $sent_http_x_a "
		"$upstream_http_set_cookie $sent_http_set_cookie $sent_http_location $upstream_status $upstream_cache_status";
		proxy_cache_path `+t.TempDir()+` keys_zone=kept:1m;`,
		"access_log "+path+" f; "+directives, nil))
	for _, head := range heads {
		status, fields, _ := strings.Cut(strings.NewReplacer("|", "\r\n", "UP", to).Replace(head), " ")
		for _, method := range []string{"GET", "HEAD", "GET"} {
			text := "HTTP/1.1 " + status + " X\r\n" + fields + "\r\n"
			if method == "GET" && status != "204" && status != "304" {
				text += "body"
			}
			got := client.do(method, "/?"+url.QueryEscape(text), nil, "Accept-Encoding", "gzip")
			for _, name := range []string{"Date", "Connection", "Expires"} { // times, and what the server decides
				if value := got.header.Get(name); value != "x" && !strings.Contains(value, " 2006 ") {
					got.header.Del(name)
				}
			}
			if got.header["Age"] != nil {
				got.header.Set("Age", "x")
			}
			all = append(all, fmt.Sprintf("%s %d %q %v", method, got.status, got.body, got.header))
		}
	}
	for i, line := range awaitLines(t, path, len(all)) {
		all[i] += " log: " + line
	}
	return all
}

// keptUpstream is an upstream whose connections stay open. It sends a request's query as its
// response.
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
			buffering := map[bool]string{true: "proxy_buffering off;"}[stream]
			h := newFront(t, parseConf(t, "upstream up { server "+to+"; keepalive 8; }", buffering+
				`location / { proxy_pass http://up; proxy_http_version 1.1; proxy_set_header Connection ""; }`))
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
					testkit.Equal(t, strings.Trim(s, "a"), "", name, "streamed", stream, "error", err, "what has changed")
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

func (w *rawWriter) TakesRawHeader(int) bool {
	close(w.began)
	return true
}

func (w *rawWriter) WriteRawHeader(code int, _ []byte, _ []http1.Field, _ connection.HeaderAdder) {
	w.raw = code
}

// A request's body that turns out to be too long replaces a response whose head was about to pass.
func TestRawHeadsYieldToRejectedBodies(t *testing.T) {
	to := testkit.ServeTCP(t, func(nc net.Conn) {
		if readHead(nc) == nil {
			_, _ = io.WriteString(nc, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\nX-A: 1\r\n\r\n")
			_, _ = io.Copy(io.Discard, nc)
		}
	})
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
		confFront(t, "", "client_max_body_size 10; location / { proxy_pass http://"+to+
			"; proxy_http_version 1.1; proxy_request_buffering off; }", nil).ServeHTTP(w, r)
	}()
	testkit.Equal(t, w.raw, 0, "the status of a head that has passed")
	testkit.Equal(t, w.Code, http.StatusRequestEntityTooLarge)
}

// Trailer fields pass, announced or not, and do not drop the head that passes as it was received.
func TestRawHeadsHaveTrailers(t *testing.T) {
	const head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-A: 1\r\nSet-Cookie: a=b; path=/u/\r\n"
	h := confFront(t, "", "proxy_http_version 1.1; proxy_cookie_path /u/ /v/; "+passTo(keptUpstream(t)), nil)
	for _, us := range []*testClient{serveByTare(t, h), serveHandler(t, h)} {
		for _, text := range []string{head + "\r\n2\r\nhi\r\n0\r\nX-T: t\r\n\r\n", head + "\r\n0\r\nx-t: t\r\n\r\n",
			head + "Trailer: X-T\r\n\r\n2\r\nhi\r\n0\r\nX-T: t\r\n\r\n",
			head + "\r\n" + strings.Repeat("4000\r\n"+strings.Repeat("x", 0x4000)+"\r\n", 9) + "0\r\nX-T: t\r\n\r\n"} {
			got := us.get("/?" + url.QueryEscape(text))
			testkit.Fields(t, got.header, got.request, "X-A", "1", "Set-Cookie", "a=b; path=/v/")
			testkit.Fields(t, got.trailer, got.request, "X-T", "t")
		}
	}
}
