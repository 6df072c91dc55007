package front_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/poison"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/wire/fcgi"
	"github.com/tarehq/tare/internal/wire/http1"
)

// sink is a ResponseWriter that costs little.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header { return s.header }
func (s *sink) WriteHeader(int)     {}

// SetSendTimeout is implemented by tare's servers.
func (s *sink) SetSendTimeout(time.Duration) error { return nil }

func (s *sink) Write(p []byte) (int, error) { return len(p), nil }

func (s *sink) serve(h http.Handler, r *http.Request) {
	clear(s.header)
	h.ServeHTTP(s, r)
}

// costs returns handlers with the allocations of a request, besides those of the content.
func costs(t testing.TB) (all []costCase) {
	app := handlers{"app": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(nil) }}
	var many []conf.Host
	for i := range 100 {
		h := conf.Host{Names: []string{fmt.Sprintf("h%d.example", i)},
			Listen: []conf.Listen{{Addr: fmt.Sprintf("127.0.0.1:%d", 80+i%2)}}}
		for j := range 100 {
			h.Locations = append(h.Locations,
				conf.Location{Path: fmt.Sprintf("/%d/", j), Proxy: &conf.Proxy{To: "app"}})
		}
		many = append(many, h)
	}
	bound := confFront(t, "", "location / { proxy_set_header Host $http_host; proxy_pass http://app; }", app)
	received := requestAt("a.example", "/")
	own := received.WithContext(context.WithValue(received.Context(), http.ServerContextKey,
		&http.Server{Handler: bound}))
	file := confFront(t, "", "root "+site(t, "x.txt", "index.html")+";", nil)
	return []costCase{
		{"bound", bound, received, 1},
		{"bound-own", bound, own, 1}, // the server's own handler: its request is not copied
		{"bound-hosts", newFront(t, conf.Config{Hosts: many}, front.Bind("app", app["app"])),
			requestAt("h42.example", "/42/x"), 1},
		{"return", confFront(t, "", "return 200 x;", nil), requestAt("a.example", "/"), 4},
		{"file", file, requestAt("a.example", "/x.txt"), 1},
		{"index", file, requestAt("a.example", "/"), 2},
		{"cached", confFront(t, "proxy_cache_path DIR/cache keys_zone=z:1m;",
			"proxy_cache z; proxy_cache_valid 200 1h; "+passTo("app"), app), requestAt("a.example", "/"), 3},
	}
}

// requestAt returns a request that a server has received.
func requestAt(host, target string) *http.Request {
	r := httptest.NewRequest("GET", target, http.NoBody)
	r.Host = host
	local := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}
	return r.WithContext(context.WithValue(context.Background(), http.LocalAddrContextKey, local))
}

// settled is when a file is no longer new, even on a busy machine.
const settled = 5 * time.Second

type costCase struct {
	name string
	h    *front.Handler
	r    *http.Request
	most float64 // allocations
}

// An exchange allocates no more than its content needs, and its memory where that cannot be reused.
func TestExchangeAllocatesLittle(t *testing.T) {
	for _, c := range costs(t) {
		if poison.Enabled {
			c.most += 2 // an exchange and a proxy's state are never reused
		}
		w := &sink{make(http.Header)}
		cost := func() float64 { return testing.AllocsPerRun(200, func() { w.serve(c.h, c.r) }) }
		n := cost()
		// a new file is read for each request
		for start := time.Now(); n > c.most && time.Since(start) < settled; n = cost() {
		}
		testkit.Between(t, n, 0, c.most, c.name, "allocations")
	}
}

func BenchmarkHandler(b *testing.B) {
	for _, c := range costs(b) {
		w := &sink{make(http.Header)}
		b.Run(c.name, func(b *testing.B) { repeat(b, func() { w.serve(c.h, c.r) }) })
	}
}

func repeat(b *testing.B, f func()) {
	b.ReportAllocs()
	for b.Loop() {
		f()
	}
}

// rawSink is a sink of a server that sends fields as they are.
type rawSink struct {
	sink
	fields int
}

func (s *rawSink) TakesRawHeader(int) bool { return len(s.header) == 0 }

func (s *rawSink) WriteString(text string) (int, error) { return len(text), nil }

func (s *rawSink) WriteRawHeader(_ int, _ []byte, fields []http1.Field, _ connection.HeaderAdder) {
	s.fields = len(fields)
}

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
	outer := "proxy_cache_path " + t.TempDir() + " keys_zone=kept:1m; upstream http { server " + replies(t, []byte("HTTP/1.1 200 OK\r\n"+upstreamFields+"\r\nhi")) +
		"; keepalive 1; } upstream fcgi { server " + replies(t, out) + "; keepalive 1; }"
	const params = `fastcgi_param QUERY_STRING $query_string; fastcgi_param REQUEST_METHOD $request_method;
		fastcgi_param SCRIPT_NAME $fastcgi_script_name; fastcgi_param REQUEST_URI $request_uri;
		fastcgi_param REMOTE_ADDR $remote_addr; fastcgi_param REMOTE_PORT $remote_port;
		fastcgi_param SERVER_ADDR $server_addr; fastcgi_param SERVER_PORT $server_port;
		fastcgi_param GATEWAY_INTERFACE CGI/1.1;`
	proxied := func(location string) *front.Handler { return confFront(t, outer, "location / { "+location+" }", nil) }
	r := requestAt("a.example", "/x")
	cached := proxied("proxy_pass http://http; proxy_cache kept; proxy_cache_valid 1h; proxy_cache_lock on; " +
		"proxy_ignore_headers Cache-Control;")
	for range 2 { // the second one waits until the response is stored
		(&sink{make(http.Header)}).serve(cached, r)
	}
	return []costCase{
		{"http", proxied(`proxy_pass http://http; proxy_http_version 1.1; proxy_set_header Connection "";`), r, 0},
		{"fastcgi", proxied("fastcgi_pass fcgi; fastcgi_keep_conn on;" + params), r, 0},
		{"cached", cached, r, 3}, // its key, and what finds and describes it
	}
}

// A proxied request allocates nothing for its response, as long as nothing needs its header. Nor is
// a header made for a stored response.
func TestRawHeadAllocatesNothing(t *testing.T) {
	testkit.NoRace(t, "pools lose some of what they are given")
	if poison.Enabled {
		t.Skip("free lists do not return what was released")
	}
	for i, c := range rawHeadCosts(t) {
		w := &rawSink{sink: sink{make(http.Header)}}
		n := testkit.Allocs(200, func() { w.header = nil; c.h.ServeHTTP(w, c.r) })
		testkit.Between(t, n, 0, c.most, c.name, "allocations")
		testkit.Equal(t, w.fields, []int{4, 6, 6}[i], c.name,
			"fields without Date and Server, which FastCGI does not hide, nor a cache its Date, with Age")
	}
}

func BenchmarkRawHead(b *testing.B) {
	for _, c := range rawHeadCosts(b) {
		w := &rawSink{sink: sink{make(http.Header)}}
		b.Run(c.name, func(b *testing.B) { repeat(b, func() { w.header = nil; c.h.ServeHTTP(w, c.r) }) })
	}
}

// A stream that waits holds none of the buffers for its request, its response, and what is copied
// between them: these are 16, 16 and 8 KB, and 16 KB of the upstream.
func TestWaitingStreamsHoldNoBuffers(t *testing.T) {
	testkit.NoRace(t, "the race detector takes memory")
	if runtime.GOOS != "linux" {
		t.Skip("streams have goroutines with buffers")
	}
	const streams, most = 200, 24 << 10
	upstream := serveOnTare(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range 2 { // the second one shows that it is a stream
			_, _ = io.WriteString(w, "event\n")
			_ = http.NewResponseController(w).Flush()
		}
		<-r.Context().Done()
	}))
	front := serveOnTare(t, confFront(t, "", "proxy_http_version 1.1; proxy_buffering off; "+passTo(upstream), nil))
	heap := func() int64 {
		runtime.GC()
		runtime.GC() // empties the free lists
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	var before int64
	for i := range streams + 1 { // the first one makes what all share
		if i == 1 {
			before = heap()
		}
		nc := dial(t, "tcp", front, "GET / HTTP/1.1\r\nHost: front.test\r\n\r\n")
		resp := testkit.Value(http.ReadResponse(bufio.NewReaderSize(nc, 512), nil))(t)
		testkit.Receives(t, resp.Body, "event\nevent\n")
	}
	testkit.WaitFor(t, "small streams", func() bool { // the last ones may be about to wait
		return (heap()-before)/streams < most
	})
}
