package front_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/poison"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/wire/fcgi"
	"github.com/tarehq/tare/internal/wire/http1"
)

// rawSink is a sink of a server that sends fields as they are.
type rawSink struct {
	sink
	fields int
}

func (s *rawSink) HasFields() bool { return len(s.header) > 0 }

func (s *rawSink) WriteString(text string) (int, error) { return len(text), nil }

func (s *rawSink) WriteRawHeader(_ int, _ []byte, fields []http1.Field) { s.fields = len(fields) }

// upstreamFields are of a usual response.
const upstreamFields = "Content-Type: text/plain\r\nContent-Length: 2\r\nDate: Mon, 02 Jan 2006 15:04:05 GMT\r\n" +
	"Server: x\r\nX-A: 1\r\nCache-Control: no-cache\r\n"

// replies listens on a unix socket, and responds to each request at once. It allocates nothing for
// a request.
func replies(t testing.TB, response []byte) (address string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	testkit.ServeUnix(t, path, func(nc net.Conn) {
		for b := make([]byte, 4<<10); ; {
			if _, err := nc.Read(b); err != nil {
				return
			}
			if _, err := nc.Write(response); err != nil {
				return
			}
		}
	})
	return "unix:" + path
}

// rawHeadCosts returns proxies with the allocations of a request.
func rawHeadCosts(t testing.TB) []costCase {
	out := fcgi.AppendStream(nil, fcgi.Stdout, 1, []byte(upstreamFields+"\r\nhi"))
	out = fcgi.AppendEnd(fcgi.AppendStreamEnd(out, fcgi.Stdout, 1), 1, fcgi.End{})
	to := conf.Upstream{Name: "http", Keepalive: 1, Servers: []conf.Server{
		{Addr: replies(t, []byte("HTTP/1.1 200 OK\r\n"+upstreamFields+"\r\nhi"))}}}
	application := conf.Upstream{Name: "fcgi", Keepalive: 1, Servers: []conf.Server{{Addr: replies(t, out)}}}
	params := []conf.Param{
		{Name: "QUERY_STRING", Value: "$query_string"}, {Name: "REQUEST_METHOD", Value: "$request_method"},
		{Name: "SCRIPT_NAME", Value: "$fastcgi_script_name"}, {Name: "REQUEST_URI", Value: "$request_uri"},
		{Name: "REMOTE_ADDR", Value: "$remote_addr"}, {Name: "REMOTE_PORT", Value: "$remote_port"},
		{Name: "SERVER_ADDR", Value: "$server_addr"}, {Name: "SERVER_PORT", Value: "$server_port"},
		{Name: "GATEWAY_INTERFACE", Value: "CGI/1.1"},
	}
	r := httptest.NewRequest("GET", "/x", nil)
	r.Body, r.RemoteAddr = http.NoBody, "127.0.0.1:1234"
	local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}
	r = r.WithContext(context.WithValue(context.Background(), http.LocalAddrContextKey, local))
	proxied := func(p conf.Proxy) *front.Handler {
		return newFront(t, conf.Config{Upstreams: []conf.Upstream{to, application},
			Hosts: []conf.Host{{Locations: []conf.Location{{Path: "/", Proxy: &p}}}}})
	}
	return []costCase{
		{"http", proxied(conf.Proxy{To: "http", Version: "1.1", Header: []conf.Field{{Name: "Connection"}}}), r, 0},
		{"fastcgi", proxied(conf.Proxy{To: "fcgi", Protocol: "fastcgi", KeepConn: true, Params: params}), r, 0},
	}
}

// A proxied request allocates nothing for its response, as long as nothing needs its header.
func TestRawHeadAllocatesNothing(t *testing.T) {
	testkit.NoRace(t, "pools lose some of what they are given")
	if poison.Enabled {
		t.Skip("free lists do not return what was released")
	}
	for i, c := range rawHeadCosts(t) {
		w := &rawSink{sink: sink{make(http.Header)}}
		if n := testkit.Allocs(200, func() { w.header = nil; c.h.ServeHTTP(w, c.r) }); n > c.most {
			t.Errorf("%s: %v allocations, want at most %v", c.name, n, c.most)
		}
		if want := 4 + 2*i; w.fields != want { // without Date and Server, which FastCGI does not hide
			t.Errorf("%s: %d fields, want %d", c.name, w.fields, want)
		}
	}
}

func BenchmarkRawHead(b *testing.B) {
	for _, c := range rawHeadCosts(b) {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			w := &rawSink{sink: sink{make(http.Header)}}
			for b.Loop() {
				c.h.ServeHTTP(w, c.r)
			}
		})
	}
}

// relaySink counts how often a response is written and flushed.
type relaySink struct {
	rawSink
	writes, flushes int
}

func (s *relaySink) Write(p []byte) (int, error) {
	s.writes++
	return len(p), nil
}

func (s *relaySink) Flush() { s.flushes++ }

// BenchmarkRelay measures responses with a body that an upstream sends at once.
func BenchmarkRelay(b *testing.B) {
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n"
	const length = "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s"
	r := httptest.NewRequest("GET", "/x", nil)
	for _, size := range []int{1 << 10, 64 << 10, 10 << 20} {
		for name, head := range map[string]string{"length": length, "chunked": chunked} {
			to := replies(b, fmt.Appendf(nil, head, size, strings.Repeat("x", size)))
			proxy := conf.Proxy{To: "up", Version: "1.1", Header: []conf.Field{{Name: "Connection"}}}
			h := newFront(b, conf.Config{
				Upstreams: []conf.Upstream{{Name: "up", Keepalive: 1, Servers: []conf.Server{{Addr: to}}}},
				Hosts:     []conf.Host{{Locations: []conf.Location{{Path: "/", Proxy: &proxy}}}},
			})
			b.Run(fmt.Sprintf("%dKB/%s", size>>10, name), func(b *testing.B) {
				w := &relaySink{rawSink: rawSink{sink: sink{make(http.Header)}}}
				b.ReportAllocs()
				for b.Loop() {
					w.header = nil
					h.ServeHTTP(w, r)
				}
				b.ReportMetric(float64(w.writes)/float64(b.N), "writes/op")
				b.ReportMetric(float64(w.flushes)/float64(b.N), "flushes/op")
			})
		}
	}
}
