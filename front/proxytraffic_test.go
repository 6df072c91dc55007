package front_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// relay forwards connections to a server, and counts the bytes.
type relay struct {
	addr               string
	toServer, toClient atomic.Int64
}

func startRelay(t *testing.T, server string) *relay {
	r := new(relay)
	r.addr = testkit.ServeTCP(t, func(client net.Conn) {
		nc, err := net.Dial("tcp", server)
		if err != nil {
			t.Error(err)
			return
		}
		defer nc.Close()
		done := make(chan struct{})
		go func() {
			defer close(done)
			forward(nc, client, &r.toServer)
		}()
		forward(client, nc, &r.toClient)
		client.Close()
		<-done
	})
	return r
}

// forward copies in one direction. It counts bytes before it passes them on.
func forward(to, from net.Conn, count *atomic.Int64) {
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		count.Add(int64(n))
		if _, failed := to.Write(b[:n]); failed != nil || err != nil {
			_ = to.(*net.TCPConn).CloseWrite()
			return
		}
	}
}

// take returns what was counted, and begins anew.
func (r *relay) take() string { return fmt.Sprint(r.toServer.Swap(0), " ", r.toClient.Swap(0)) }

// trafficLog serves a configuration, and returns its client and a function that returns the next
// line of its log.
func trafficLog(t *testing.T, outer, server string) (*testClient, func() string) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "log")
	a := serveConf(t, outer+` log_format traffic "$upstream_bytes_sent $upstream_bytes_received";`,
		"access_log "+name+" traffic; "+server)
	lines := 0
	return a, func() string {
		lines++
		return strings.TrimSuffix(awaitLines(t, name, lines)[lines-1], "\n")
	}
}

// The bytes of upstream connections are those that pass them, whatever the framing.
func TestBytesOfUpstreamConnectionsAreCounted(t *testing.T) {
	testkit.Long(t, "it transfers much")
	server := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Trailer", "X-End")
		for i := range 10 {
			io.WriteString(w, pattern(len(r.URL.Query().Get("n"))<<15))
			if r.URL.Query().Has("chunks") && i%2 == 0 {
				_ = http.NewResponseController(w).Flush()
			}
		}
		w.Header().Set("X-End", "yes")
	})
	app := application(t, nil, "warning")
	for path, to := range map[string]string{"/": server, "/kept": server, "/stream": server, "/fastcgi": app,
		"/fastcgi/kept": app} {
		t.Run(path, func(t *testing.T) {
			t.Parallel() // each line of a log comes late
			up := startRelay(t, to)
			a, line := trafficLog(t, "upstream kept { server "+up.addr+"; keepalive 1; }", strings.ReplaceAll(`
				proxy_pass_trailers on; client_max_body_size 10m; proxy_http_version 1.1;
				location / { proxy_pass http://UP; }
				location /kept { proxy_set_header Connection ""; proxy_pass http://kept; }
				location /stream { proxy_buffering off; proxy_request_buffering off; proxy_pass http://UP; }
				location /fastcgi { fastcgi_pass UP; fastcgi_param A b; }
				location /fastcgi/kept { fastcgi_keep_conn on; fastcgi_pass kept; fastcgi_param A b; }`, "UP", up.addr))
			for _, query := range []string{"", "?n=x", "?n=xx&chunks"} {
				for _, size := range []int{0, 10, 20_000, 200_000} {
					method := "GET"
					var body io.Reader
					if size > 0 {
						method, body = "POST", strings.NewReader(pattern(size))
					}
					if size == 20_000 {
						body = struct{ io.Reader }{body} // in chunks
					}
					a.do(method, path+query, body).is(t, 200)
					got := line() // the end of FastCGI's request may come after the client's response
					testkit.Equal(t, got, up.take(), method, path, query, "with", size, "bytes")
				}
			}
		})
	}
}

// Each attempt has its own numbers, also if it has no response.
func TestBytesOfAttemptsAreSeparate(t *testing.T) {
	const refused = "127.0.0.1:1"
	silent := testkit.ServeTCP(t, func(nc net.Conn) { _, _ = io.Copy(io.Discard, nc) })
	ok := startRelay(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/page" {
			w.WriteHeader(404)
		}
	}))
	a, line := trafficLog(t, fmt.Sprintf("upstream two { server %s max_fails=0; server %s; }", refused, ok.addr),
		fmt.Sprintf(`location / { proxy_pass http://two; proxy_next_upstream error timeout http_404; }
		location /silent { proxy_pass http://%s; proxy_read_timeout 100ms; }
		location /page { proxy_pass http://%s; proxy_intercept_errors on; error_page 404 /other; }
		location /other { proxy_pass http://%s; } location /none { return 200; }
		`, silent, ok.addr, ok.addr)+
			"location /unix { proxy_pass http://unix:/none:; }")
	for range 2 { // either server may be the first one
		a.get("/")
		want := ok.take()
		sent, received, _ := strings.Cut(want, " ")
		if got := line(); got != want && got != fmt.Sprintf("0, %s 0, %s", sent, received) {
			t.Errorf("two attempts: %q, want %q after zeros", got, want)
		}
	}
	a.get("/silent")
	if got := line(); !strings.HasSuffix(got, " 0") || got == "0 0" {
		t.Errorf("no response: %q", got)
	}
	a.get("/page")
	testkit.Equal(t, strings.Count(line(), " : "), 2, "separators of upstream requests")
	a.get("/unix")
	testkit.Equal(t, line(), "0 0", "without a connection")
	a.get("/none")
	testkit.Equal(t, line(), "- -", "without an upstream")
}

// A tunnel's bytes count in both directions, and its head once. The log counts those of the client.
func TestBytesOfTunnelsAreCounted(t *testing.T) {
	up := startRelay(t, testkit.ServeTCP(t, func(nc net.Conn) {
		b := bufio.NewReader(nc)
		if _, err := http.ReadRequest(b); err != nil {
			return
		}
		io.WriteString(nc, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\nearly")
		_, _ = io.CopyN(nc, b, 100_000)
	}))
	sent := filepath.Join(t.TempDir(), "sent")
	a, line := trafficLog(t, `log_format sent "$status $bytes_sent $body_bytes_sent $upstream_response_length";`,
		"access_log "+sent+` sent; location / { proxy_pass http://`+up.addr+`; proxy_http_version 1.1;
		proxy_set_header Upgrade $http_upgrade; proxy_set_header Connection upgrade; }`)
	nc := dial(t, "unix", a.socket,
		"GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n"+pattern(100_000))
	got := testkit.Value(io.ReadAll(nc))(t)
	if !strings.HasSuffix(string(got), "early"+pattern(100_000)) {
		t.Errorf("the client received %d bytes", len(got))
	}
	testkit.Equal(t, line(), up.take())
	testkit.Equal(t, awaitLines(t, sent, 1)[0], fmt.Sprintf("101 %d 100005 0", len(got)))
}

// HTTP/2 counts the frames of a request: its connections carry several.
func TestBytesOfHTTP2AreThoseOfStreams(t *testing.T) {
	plain := startHTTP2(t, false)
	a, line := trafficLog(t, "", `client_max_body_size 10m; proxy_http_version 2;
		location / { proxy_pass http://`+plain+`; }
		location /stream { proxy_request_buffering off; proxy_pass http://`+plain+`; }`)
	for _, path := range []string{"/", "/stream"} {
		for _, size := range []int{0, 10, 1 << 20} {
			got := a.do("POST", path, strings.NewReader(pattern(size)))
			var sent, received int
			text := line()
			_, _ = fmt.Sscan(text, &sent, &received)
			const mostHead, mostOverhead = 500, 9 // of a frame of at least 1 KB
			testkit.Between(t, sent-size, mostOverhead, mostHead+size/(1<<10)*mostOverhead, path, "sent beside", size, "bytes")
			testkit.Between(t, received, len(got.body)+1, len(got.body)+mostHead, path, "received for", len(got.body), "bytes")
		}
	}
}
