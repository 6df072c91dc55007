package front

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
	"github.com/tarehq/tare/internal/wire/http2"
)

// hostile starts a server that responds to each request with frames, and then closes the connection
// if closes is set.
func hostile(t *testing.T, closes bool, frames func(id uint32) []byte) (addr string) {
	l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer nc.Close()
				if _, err := io.CopyN(io.Discard, nc, int64(len(http2.Preface))); err != nil {
					return
				}
				_, _ = nc.Write(http2.AppendSettings(nil))
				for {
					head := make([]byte, http2.FrameHeaderSize)
					if _, err := io.ReadFull(nc, head); err != nil {
						return
					}
					h, _ := http2.ParseFrameHeader(head)
					_, err := io.CopyN(io.Discard, nc, int64(h.Length))
					if h.Type == http2.Headers {
						_, _ = nc.Write(frames(h.StreamID))
					}
					if err != nil || closes && h.Type == http2.Headers {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		running.Wait()
	})
	return l.Addr().String()
}

// get sends a request without a body over HTTP/2, and returns the status.
func get(t *testing.T, addr, path string) int {
	t.Helper()
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	defer tr.CloseIdleConnections()
	resp := testkit.Value((&http.Client{Transport: tr, Timeout: callTimeout}).Get("http://" + addr + path))(t)
	resp.Body.Close()
	return resp.StatusCode
}

// The front does what nginx does if an upstream violates HTTP/2 or ends connections: it tries
// another server of the group, and without one responds with the same status. What nginx 1.22 sends
// to the other server is sometimes incomplete, so its status there is not compared.
func TestHostileUpstreamsCostWhatTheyCostNginx(t *testing.T) {
	update := func(id uint32) []byte { return http2.AppendWindowUpdate(nil, id, http2.MaxWindow) }
	goAway := func(uint32) []byte { return http2.AppendGoAway(nil, 0, http2.NoError) }
	none := func(uint32) []byte { return nil }
	servers := map[string]string{
		"window":      hostile(t, false, func(id uint32) []byte { return append(update(id), update(id)...) }),
		"connwindow":  hostile(t, false, func(uint32) []byte { return append(update(0), update(0)...) }),
		"goaway":      hostile(t, false, goAway),
		"goawayclose": hostile(t, true, goAway),
		"refused": hostile(t, false,
			func(id uint32) []byte { return http2.AppendRSTStream(nil, id, http2.RefusedStream) }),
		"close":  hostile(t, true, none),
		"silent": hostile(t, false, none),
		"push": hostile(t, false, func(id uint32) []byte {
			h := http2.FrameHeader{Type: http2.PushPromise, Flags: http2.EndHeaders, StreamID: id, Length: 5}
			return append(http2.AppendFrameHeader(nil, h), 0, 0, 0, 2, 0x88)
		}),
	}
	healthy := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	healthy.Config.Protocols = new(http.Protocols)
	healthy.Config.Protocols.SetUnencryptedHTTP2(true)
	healthy.Start()
	t.Cleanup(healthy.Close)
	var upstreams, locations strings.Builder
	for name, addr := range servers {
		fmt.Fprintf(&upstreams, "upstream %s { server %s max_fails=0; server %s max_fails=0 backup; }\n", name, addr,
			healthy.Listener.Addr())
		timeout := callTimeout
		if name == "silent" {
			timeout = time.Second
		}
		fmt.Fprintf(&locations, "location /%s/ { grpc_read_timeout %d; location /%[1]s/two { grpc_pass %[1]s; } "+
			"location /%[1]s/alone { grpc_pass %[3]s; } }\n", name, timeout/time.Second, addr)
	}
	text := `daemon off; master_process off; pid DIR/pid; error_log DIR/error.log; worker_rlimit_nofile 1000; events {}
		http { access_log off;
		client_body_temp_path DIR/b; proxy_temp_path DIR/p; fastcgi_temp_path DIR/f; uwsgi_temp_path DIR/u; scgi_temp_path DIR/c;
		grpc_next_upstream error timeout invalid_header;
		` + upstreams.String() + `server { listen LISTEN http2; ` + locations.String() + `} }`
	results := make(map[string]map[string][]int)
	for front, start := range map[string]func(t *testing.T, dir, path, addr string){
		"nginx": startNginx, "tare": startFront,
	} {
		dir, addr := t.TempDir(), programs.FreeAddress(t)
		path := filepath.Join(dir, "nginx.conf")
		conf := strings.NewReplacer("DIR", dir, "LISTEN", addr).Replace(text)
		testkit.Must(t, os.WriteFile(path, []byte(conf), 0o600))
		start(t, dir, path, addr)
		results[front] = make(map[string][]int)
		for name := range servers {
			for _, path := range []string{"/two", "/two", "/alone", "/alone"} {
				results[front][name] = append(results[front][name], get(t, addr, "/"+name+path))
			}
		}
	}
	for name, want := range results["nginx"] {
		if got := results["tare"][name]; got[0] != 200 || got[1] != 200 || !slices.Equal(got[2:], want[2:]) {
			t.Errorf("%s: %v, nginx: %v", name, got, want)
		}
	}
}
