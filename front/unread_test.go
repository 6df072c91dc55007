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

	"github.com/tarehq/tare/internal/testkit"
)

const unreadConf = `
		send_timeout 100ms; root DIR/site;
		location = /return { return 200 text; }
		location = /redirect { return 302 /x; }
		location = /page { error_page 404 = @page; return 404; }
		location @page { return 404 page; }
		location = /password { auth_basic x; auth_basic_user_file DIR/none; }
		location /list/ { alias DIR/site/; autoindex on; }
		location = /proxied { proxy_pass http://UP; }
		location = /cached { proxy_pass http://UP; proxy_cache z; proxy_cache_valid any 1h; }
		location = /changed { sub_filter a b; gzip on; gzip_types *; gzip_min_length 1; proxy_pass http://UP; }
`

// A client that sends requests and reads no responses is disconnected after send_timeout, even if
// the responses are short.
func TestClientThatReadsNothingIsDisconnected(t *testing.T) {
	testkit.Long(t, "it waits for timeouts")
	noLeaks(t)
	up := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "an answer") })
	dir := site(t, "site/x.txt")
	c := parseConf(t, "proxy_cache_path DIR/cache keys_zone=z:1m;",
		strings.NewReplacer("DIR", filepath.ToSlash(dir), "UP", up).Replace(unreadConf))
	server := httptest.NewUnstartedServer(newFront(t, c))
	server.Listener.Close()
	socket := filepath.Join(shortDir(t), "s") // TCP may stall by itself
	var err error
	server.Listener, err = net.Listen("unix", socket)
	must(t, err)
	server.Start()
	t.Cleanup(server.Close)
	for _, request := range []string{
		"GET /return", "GET /redirect", "GET /page", "GET /nothing", "GET /password", "GET /list/", "GET /x.txt",
		"HEAD /x.txt", "POST /x.txt", "TRACE /", "GET /%00",
		"GET /proxied", "GET /cached", "GET /changed",
	} {
		t.Run(request, func(t *testing.T) {
			nc, err := net.Dial("unix", socket)
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
