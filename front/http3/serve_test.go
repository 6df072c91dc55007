package http3_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/server"
	"github.com/tarehq/tare/internal/testkit"
)

// sameBlocks are locations of all kinds.
const sameBlocks = `
upstream plain { server UPSTREAM; keepalive 2; }
proxy_http_version 1.1; proxy_set_header Connection "";
server {
	listen ADDR ssl; listen ADDR quic; http2 on;
	server_name localhost;
	add_header Alt-Svc 'h3=":443"; ma=60' always;
	root DIR/files;
	gzip on; gzip_min_length 10; gzip_types text/plain;
	location / { }
	location /text { return 200 "$request_method $http2$http3 $scheme $server_port $remote_addr $host"; }
	location /moved { return 301 /text; }
	location /denied { deny all; error_page 403 = /text; }
	location /password { auth_basic x; auth_basic_user_file DIR/none; }
	location /app { proxy_pass http://app; }
	location /plain/ { proxy_pass http://plain; }
	location /small { client_max_body_size 10; proxy_pass http://plain; }
	location /stream { proxy_request_buffering off; proxy_buffering off; proxy_pass http://plain; }
}
server { listen ADDR ssl; listen ADDR quic; http2 on; server_name other.example; return 200 "the other host"; }
`

// describe is a handler that responds with what it received.
func describe(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Set("Keep-Alive", "timeout=5") // malformed in HTTP/2 and HTTP/3
	w.Header().Set("Trailer", "X-Trailer")
	fmt.Fprintf(w, "%s %s %q %d %v %s %v %v", r.Method, r.RequestURI, r.Host, r.ContentLength, r.TransferEncoding,
		r.Header.Get("X-Sent"), len(b), err)
	w.Header().Set("X-Trailer", "end")
	if n := r.Header.Get("X-Bytes"); n != "" {
		_, _ = w.Write(make([]byte, 1<<20))
	}
}

// The same requests receive the same responses by HTTP/2 and by HTTP/3.
func TestResponsesAreThoseOfHTTP2(t *testing.T) {
	testkit.Long(t, "it compares many responses")
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(describe))
	defer upstream.Close()
	blocks := strings.Replace(sameBlocks, "UPSTREAM", upstream.Listener.Addr().String(), 1)
	s := serve(t, blocks, server.Bind("app", http.HandlerFunc(describe)))
	writeFiles(t, s.dir)
	two := s.http2Client()
	three, dialed := s.http3Client(nil)
	for _, c := range []struct{ method, path, header, body string }{
		{"GET", "/text", "", ""}, {"GET", "/moved", "", ""}, {"GET", "/denied", "", ""}, {"GET", "/password", "", ""},
		{"GET", "/page.txt", "", ""}, {"HEAD", "/page.txt", "", ""}, {"GET", "/page.txt", "Accept-Encoding: gzip", ""},
		{"GET", "/page.txt", "Range: bytes=2-5", ""}, {"GET", "/page.txt", "If-None-Match: *", ""},
		{"GET", "/missing", "", ""}, {"GET", "/large", "", ""}, {"GET", "/large", "Range: bytes=1000000-", ""},
		{"GET", "/app?x=y", "X-Sent: value", ""}, {"POST", "/app", "", "a body"},
		{"PUT", "/app", "", strings.Repeat("b", 300000)},
		{"DELETE", "/app", "", ""}, {"DELETE", "/app", "", "a body"}, {"GET", "/app", "X-Bytes: 1", ""},
		{"GET", "/plain/x", "X-Sent: value", ""}, {"POST", "/plain/x", "", "a body"}, {"OPTIONS", "/plain/x", "", ""},
		{"POST", "/plain/x", "", strings.Repeat("c", 3<<20)}, {"GET", "/plain/x", "X-Bytes: 1", ""},
		{"POST", "/small", "", "too large a body"}, {"POST", "/stream", "", strings.Repeat("d", 1<<20)},
		{"HEAD", "/plain/x", "", ""}, {"GET", "/text", "Host: other.example", ""},
	} {
		want, got := exchange(t, two, s.addr, c.method, c.path, c.header, c.body),
			exchange(t, three, s.addr, c.method, c.path, c.header, c.body)
		want = strings.Replace(want, "GET h2 https", "GET h3 https", 1)
		testkit.Equal(t, got, want, c.method, c.path, c.header)
	}
	testkit.Equal(t, len(dialed.String()), 1, "connections")
}

func writeFiles(t *testing.T, dir string) {
	t.Helper()
	testkit.WriteFile(t, filepath.Join(dir, "files", "page.txt"), strings.Repeat("a page\n", 50))
	testkit.WriteFile(t, filepath.Join(dir, "files", "large"), strings.Repeat("\x00", 2<<20))
}

// exchange returns a response as text, without what differs each time.
func exchange(t *testing.T, c *http.Client, addr, method, path, header, body string) string {
	t.Helper()
	req := testkit.Value(http.NewRequest(method, "https://"+addr+path, strings.NewReader(body)))(t)
	if body == "" {
		req.Body = nil
	}
	if name, value, ok := strings.Cut(header, ": "); name == "Host" {
		req.Host = value
	} else if ok {
		req.Header.Set(name, value)
	}
	resp, err := c.Do(req)
	if err != nil {
		return err.Error()
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	var fields []string
	for name, values := range resp.Header {
		if name != "Date" && name != "Last-Modified" && name != "Etag" {
			fields = append(fields, fmt.Sprint(name, values))
		}
	}
	slices.Sort(fields)
	return fmt.Sprintln(resp.StatusCode, fields, len(b), err, resp.Trailer, string(b[:min(len(b), 300)]))
}

// A response is passed on when its upstream pauses.
func TestStreamsArePassedOn(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range 3 {
			_, _ = io.WriteString(w, "event\n")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-arrived:
			case <-r.Context().Done():
				return
			}
		}
	}))
	defer upstream.Close()
	blocks := strings.Replace(sameBlocks, "UPSTREAM", upstream.Listener.Addr().String(), 1)
	s := serve(t, blocks, server.Bind("app", upstream.Config.Handler))
	writeFiles(t, s.dir)
	client, _ := s.http3Client(nil)
	for _, path := range []string{"/plain/x", "/stream", "/app"} {
		resp := testkit.Value(client.Get("https://" + s.addr + path))(t)
		for range 3 {
			var event [len("event\n")]byte
			testkit.Value(io.ReadFull(resp.Body, event[:]))(t)
			arrived <- struct{}{}
		}
		resp.Body.Close()
	}
}
