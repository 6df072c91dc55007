package front_test

import (
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
