package front_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// Bodies of all sizes arrive unchanged, with a length and without, buffered or streamed.
func TestRequestBodiesArriveUnchanged(t *testing.T) {
	const most = 300 << 10
	to := serve(t, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		fmt.Fprint(w, r.ContentLength, len(b), err, checksum(b))
	})
	for _, buffering := range []string{"on", "off"} {
		a := serveConf(t, "", "client_max_body_size 300k; proxy_request_buffering "+buffering+
			"; proxy_http_version 1.1; "+passTo(to))
		for _, n := range []int{0, 1, 16 << 10, 16<<10 + 1, 40_000, most, most + 1} {
			body := pattern(n)
			for _, known := range []bool{true, false} {
				var r io.Reader = strings.NewReader(body)
				length := n
				if !known {
					r = struct{ io.Reader }{r}
					if buffering == "off" {
						length = -1
					}
				}
				got := a.do("POST", "/", r)
				if n > most {
					got.is(t, 413)
				} else {
					want := fmt.Sprint(length, n, nil, checksum([]byte(body)))
					testkit.Equal(t, got.body, want, "buffering", buffering, "known", known)
				}
			}
		}
	}
}

func pattern(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + i>>8)
	}
	return string(b)
}

func checksum(b []byte) (sum uint64) {
	for _, c := range b {
		sum = sum*31 + uint64(c)
	}
	return sum
}

// Responses of all sizes arrive unchanged, with a length and without, through memory and files, at
// any speed.
func TestResponseBodiesArriveUnchanged(t *testing.T) {
	testkit.Long(t, "it transfers much")
	to := serve(t, func(w http.ResponseWriter, r *http.Request) {
		n := 0
		fmt.Sscan(r.FormValue("n"), &n)
		if r.FormValue("known") != "" {
			w.Header().Set("Content-Length", fmt.Sprint(n))
		}
		io.WriteString(w, pattern(n))
	})
	for name, p := range map[string]conf.Proxy{
		"usual": {}, "stream": {Stream: true}, "little memory": {BufferBytes: 1},
		"no file": {BufferBytes: 1, MaxSpool: -1}, "small file": {BufferBytes: 1, MaxSpool: 100 << 10},
		"kept": {Version: "1.1", Header: []conf.Field{{Name: "Connection"}}},
	} {
		t.Run(name, func(t *testing.T) {
			p.To = "up"
			c := proxyTo(p)
			c.Upstreams = []conf.Upstream{{Name: "up", Servers: []conf.Server{{Addr: to}}, Keepalive: 4}}
			a := serveHandler(t, newFront(t, c))
			for _, n := range []int{0, 1, 8191, 8192, 32 << 10, 32<<10 + 1, 200_000, 3 << 20} {
				for _, known := range []string{"", "&known=1"} {
					resp := testkit.Value(a.client.Get(fmt.Sprintf("http://x/?n=%d%s", n, known)))(t)
					if n > 1<<20 {
						time.Sleep(20 * time.Millisecond) // a slow client
					}
					testkit.Reads(t, resp.Body, pattern(n), n, known)
					resp.Body.Close()
				}
			}
		})
	}
}

// A body is in the file whose name the upstream receives, and the file stays if it is to be kept.
func TestBodyIsInNamedFile(t *testing.T) {
	for _, file := range []string{"on", "clean"} {
		for _, body := range []string{"short", strings.Repeat("long", 50_000)} {
			for sent, n := range map[string]int{"on": len(body), "off": 0} {
				dir := t.TempDir()
				to := serve(t, func(w http.ResponseWriter, r *http.Request) {
					sent, _ := io.ReadAll(r.Body)
					stored, err := os.ReadFile(r.Header.Get("X-File"))
					fmt.Fprint(w, string(stored) == body, " ", len(sent), " ", err)
				})
				a := serveConf(t, "", "client_body_temp_path "+dir+"; client_body_in_file_only "+file+
					"; proxy_request_buffering off; proxy_pass_request_body "+sent+
					"; location / { proxy_set_header X-File $request_body_file; proxy_pass http://"+to+"; }")
				testkit.Equal(t, a.do("POST", "/", strings.NewReader(body)).body, fmt.Sprint("true ", n, " <nil>"))
				a.get("/") // no body: no file. The response shows that the first request has ended.
				kept := testkit.Value(filepath.Glob(filepath.Join(dir, "*")))(t)
				testkit.Equal(t, len(kept) == 1, file == "on", "files", kept)
			}
		}
	}
}

// The folder of bodies must be one that the process can write. A check of a Config does not create
// it.
func TestBodyFolderIsWritableAndNotMadeByChecks(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bodies")
	c := func(dir string) conf.Config {
		return oneHost(conf.Location{Path: "/", Settings: &conf.Settings{BodyFile: "clean", BodyDir: dir}})
	}
	newFront(t, c(dir), front.CachesInMemory())
	testkit.Fails(os.Stat(dir))(t, "no such file", "the folder after a check")
	testkit.Fails(front.New(c(filepath.Join(dir, "x")), front.CachesInMemory()))(t, "no such file")
	testkit.Must(t, os.WriteFile(dir, nil, 0o600)) // where also root cannot create files
	testkit.Fails(front.New(c(dir)))(t, "permission denied", "a file in place of the folder")
}

// A body that cannot be stored is the server's error.
func TestBodyThatCannotBeStored(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	testkit.Must(t, os.Mkdir(dir, 0o700))
	a := serveConf(t, "", "client_body_in_file_only clean; client_body_temp_path "+dir+"; "+passTo(serve(t, echo)))
	testkit.Must(t, os.Remove(dir))
	a.do("POST", "/", strings.NewReader("body")).is(t, 500)
}

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
