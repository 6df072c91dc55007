package front_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/front/nginxconf"
	"github.com/tarehq/tare/internal/testkit"
)

const unreadConf = `
events {}
http {
	access_log off; send_timeout 100ms; proxy_cache_path DIR/cache keys_zone=z:1m;
	server {
		listen 127.0.0.1:1; root DIR/site;
		location = /return { return 200 text; }
		location = /redirect { return 302 /x; }
		location = /page { error_page 404 = @page; return 404; }
		location @page { return 404 page; }
		location = /password { auth_basic x; auth_basic_user_file DIR/none; }
		location /list/ { alias DIR/site/; autoindex on; }
		location = /proxied { proxy_pass http://UP; }
		location = /cached { proxy_pass http://UP; proxy_cache z; proxy_cache_valid any 1h; }
		location = /changed { sub_filter a b; gzip on; gzip_types *; gzip_min_length 1; proxy_pass http://UP; }
	}
}
`

// A client that sends requests and reads no responses is disconnected after send_timeout, even if
// the responses are short.
func TestClientThatReadsNothingIsDisconnected(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	noLeaks(t)
	up := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "an answer") })
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "site"), 0o755))
	must(t, os.WriteFile(filepath.Join(dir, "site/x.txt"), []byte("a file"), 0o644))
	file := filepath.Join(dir, "nginx.conf")
	must(t, os.WriteFile(file, []byte(strings.NewReplacer("DIR", filepath.ToSlash(dir), "UP",
		strings.TrimPrefix(up, "http://")).Replace(unreadConf)), 0o644))
	read, err := nginxconf.Parse(file, nginxconf.Options{Prefix: dir})
	must(t, err)
	h := newFront(t, read.Config)
	server := httptest.NewUnstartedServer(h)
	server.Listener.Close()
	server.Listener, err = net.Listen("unix", filepath.Join(dir, "s")) // TCP may stall by itself
	must(t, err)
	server.Start()
	t.Cleanup(server.Close)
	for _, request := range []string{
		"GET /return", "GET /redirect", "GET /page", "GET /nothing", "GET /password", "GET /list/", "GET /x.txt",
		"HEAD /x.txt", "POST /x.txt", "TRACE /", "GET /%00",
		"GET /proxied", "GET /cached", "GET /changed",
	} {
		t.Run(request, func(t *testing.T) {
			nc, err := net.Dial("unix", filepath.Join(dir, "s"))
			must(t, err)
			defer nc.Close()
			must(t, nc.SetDeadline(time.Now().Add(maxWait)))
			text := strings.Repeat(request+" HTTP/1.1\r\nHost: front.test\r\nAccept-Encoding: gzip\r\n\r\n", 100)
			for err == nil {
				_, err = io.WriteString(nc, text)
			}
			if os.IsTimeout(err) {
				t.Error("the connection was not closed")
			}
		})
	}
}
