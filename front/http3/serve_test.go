package http3_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	client "github.com/quic-go/quic-go/http3"

	"github.com/tarehq/tare/front/http3"
	"github.com/tarehq/tare/front/server"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/tlstest"
)

// patience limits how long a test waits for an expected event.
const patience = time.Minute

// site is a running server.
type site struct {
	*testing.T
	dir   string
	addr  string // of TCP and UDP
	main  string // directives outside of http
	run   *server.Server
	ended <-chan error
	log   testkit.Log
}

// freeAddr returns an address whose port is free, for TCP and UDP. No client gets it before the
// server listens: systems take the ports of clients from 32768 on.
func freeAddr(t *testing.T) string {
	t.Helper()
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(10_000))
		l, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		c, err := net.ListenPacket("udp", addr)
		l.Close()
		if err == nil {
			c.Close()
			return addr
		}
	}
	t.Fatal("no port is free")
	return ""
}

// serve starts a server. In the blocks of http, ADDR and OTHER stand for addresses, PORT for their
// port, and DIR for a folder.
func serve(t *testing.T, blocks string, bound ...server.Binding) *site {
	t.Helper()
	s := &site{T: t, dir: t.TempDir(), addr: freeAddr(t)}
	cert, key := tlstest.SelfSign(t, x509.Certificate{DNSNames: []string{"localhost", "other.example"}})
	testkit.Must(t, os.WriteFile(filepath.Join(s.dir, "cert.pem"), append(cert, key...), 0o600))
	s.configure(blocks)
	ready := make(chan struct{}, 100) // as many as a test may reload
	s.run = server.New(server.File{Path: filepath.Join(s.dir, "nginx.conf")}, server.Options{
		Stdout: io.Discard, Stderr: &s.log, HTTP3: http3.New(), NoSignals: true,
		Ready: func() { ready <- struct{}{} },
	}, bound...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log:\n%s", s.log.String())
		}
	})
	s.ended = testkit.Run(t, s.run.Run, ready)
	return s
}

func (s *site) configure(blocks string) {
	s.Helper()
	text := "events {}\nerror_log stderr;\n" + s.main + "http { access_log off; ssl_certificate DIR/cert.pem;\n" +
		"ssl_certificate_key DIR/cert.pem;\n" + blocks + "}\n"
	text = strings.NewReplacer("DIR", s.dir, "ADDR", s.addr, "OTHER", s.otherAddr(), "PORT",
		s.addr[strings.LastIndexByte(s.addr, ':')+1:]).Replace(text)
	testkit.Must(s, os.WriteFile(filepath.Join(s.dir, "nginx.conf"), []byte(text), 0o600))
}

// otherAddr returns another address.
func (s *site) otherAddr() string { return strings.Replace(s.addr, "127.0.0.1", "127.0.0.2", 1) }

func (s *site) reload(blocks string) {
	s.Helper()
	s.configure(blocks)
	testkit.Must(s, s.run.Reload())
}

// clientTLS trusts any certificate.
func clientTLS() *tls.Config { return &tls.Config{InsecureSkipVerify: true, ServerName: "localhost"} }

// http3Client returns a client of HTTP/3. dialed counts its connections.
func (s *site) http3Client(o *quic.Config) (c *http.Client, dialed *testkit.Log) {
	dialed = new(testkit.Log)
	transport := &client.Transport{TLSClientConfig: clientTLS(), QUICConfig: o, DisableCompression: true}
	transport.Dial = func(ctx context.Context, addr string, t *tls.Config, q *quic.Config) (*quic.Conn, error) {
		fmt.Fprint(dialed, ".")
		return quic.DialAddrEarly(ctx, addr, t, q)
	}
	s.Cleanup(func() { transport.Close() })
	return &http.Client{Transport: repeating{transport}, Timeout: patience, CheckRedirect: noRedirects}, dialed
}

// repeating repeats requests that the client has canceled itself: quic-go closes the connection if
// GOAWAY arrives while a request opens its stream.
type repeating struct{ *client.Transport }

func (t repeating) RoundTrip(r *http.Request) (*http.Response, error) {
	for {
		resp, err := t.Transport.RoundTrip(r)
		e, ok := errors.AsType[*client.Error](err)
		if !ok || e.Remote || e.ErrorCode != client.ErrCodeNoError || r.Body != nil {
			return resp, err
		}
	}
}

func noRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// http2Client returns a client of HTTP/2.
func (s *site) http2Client() *http.Client {
	transport := &http.Transport{TLSClientConfig: clientTLS(), ForceAttemptHTTP2: true, DisableCompression: true}
	s.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience, CheckRedirect: noRedirects}
}

// get requires a response with status 200 and returns its body.
func (s *site) get(c *http.Client, path string) string {
	s.Helper()
	return s.getFrom(c, s.addr, path)
}

// getFrom is get from an address.
func (s *site) getFrom(c *http.Client, addr, path string) string {
	s.Helper()
	resp := testkit.Value(c.Get("https://" + addr + path))(s)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		s.Fatalf("%s: %s, %v", path, resp.Status, err)
	}
	return string(b)
}

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
