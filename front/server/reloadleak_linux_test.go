package server_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/server"
	"github.com/tarehq/tare/internal/testkit"
)

// leakable is a configuration with all that a reload shares or replaces. %d changes.
const leakable = `
events {}
error_log DIR/error%d.log;
http {
	resolver 127.0.0.1:1;
	access_log DIR/access%d.log;
	proxy_cache_path DIR/cache keys_zone=z:1m max_size=%dm;
	limit_req_zone $binary_remote_addr zone=r:%dm rate=1000r/s;
	map $uri $to { default a%d; ~^/(.)%d b; }
	upstream kept { keepalive %d; server HOST; }
	upstream named { zone named 64k; server none.invalid resolve; }
	server {
		listen ADDR;
		keepalive_timeout %ds;
		location / { limit_req zone=r burst=9; proxy_pass http://kept; proxy_http_version 1.1; proxy_set_header Connection ""; }
		location /c { proxy_cache z; proxy_cache_valid 1m; proxy_pass http://kept; }
		location /n { proxy_pass http://named; }
		location /v { proxy_pass http://$to:1; }
		location /t { return 200 $to; }
	}
}`

// 200 reloads, some of which fail, leave no goroutine, descriptor or memory behind.
func TestReloadsLeakNothing(t *testing.T) {
	testkit.Long(t, "it reloads 200 times")
	dir := t.TempDir()
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		testkit.Must(t, err)
		return l
	}
	upstream := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "hi")
	})}
	behind, front := listen(), listen()
	go upstream.Serve(behind)
	defer upstream.Close()
	path := filepath.Join(dir, "nginx.conf")
	text := strings.NewReplacer("DIR", dir, "HOST", behind.Addr().String(), "ADDR", front.Addr().String(),
		"%d", "%[1]d").Replace(leakable)
	write := func(i int) {
		config := fmt.Sprintf(text, 1+i%3)
		if i%10 == 9 {
			config = strings.Replace(config, dir+"/access", dir+"/missing/access", 1)
		}
		testkit.Must(t, os.WriteFile(path, []byte(config), 0o600))
	}
	write(0)
	s, ended := run(t, path, server.Options{Listeners: []net.Listener{front}})
	client := &http.Client{Transport: &http.Transport{}}
	reload := func(from, to int) {
		for i := from; i < to; i++ {
			write(i)
			if err := s.Reload(); (err != nil) != (i%10 == 9) {
				t.Fatalf("reload %d: %v", i, err)
			}
			for _, path := range []string{"/", "/c", "/n", "/v", "/t"} {
				resp, err := client.Get("http://" + front.Addr().String() + path)
				testkit.Must(t, err)
				resp.Body.Close()
			}
		}
	}
	reload(0, 30)
	before := usage(t)
	reload(30, 230)
	var after [3]int64
	testkit.WaitFor(t, "goroutines, descriptors and heap to be as before", func() bool {
		after = usage(t)
		return after[0] <= before[0]+5 && after[1] <= before[1]+5 && after[2] <= before[2]+500<<10
	})
	t.Logf("%v, %v", before, after)
	client.CloseIdleConnections()
	s.Drain()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// usage returns the numbers of goroutines, of descriptors, and of bytes of the heap.
func usage(t *testing.T) [3]int64 {
	runtime.GC()
	runtime.GC()
	files, err := os.ReadDir("/proc/self/fd")
	testkit.Must(t, err)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return [3]int64{int64(runtime.NumGoroutine()), int64(len(files)), int64(m.HeapAlloc)}
}
