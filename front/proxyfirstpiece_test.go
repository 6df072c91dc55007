package front_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare"
)

// serveTare serves a server block by tare's own server, and returns its socket.
func serveTare(t *testing.T, outer, block string) string {
	t.Helper()
	socket := filepath.Join(shortDir(t), "s")
	l, err := net.Listen("unix", socket)
	must(t, err)
	s := tare.Wrap(&http.Server{Handler: newFront(t, parseConf(t, outer, block), quiet())})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(l)
	}()
	t.Cleanup(func() {
		_ = s.Close()
		<-done
	})
	return socket
}

// Without buffering, the part of a body that has arrived is in the same write as the head.
func TestFirstPieceFollowsHeadAtOnce(t *testing.T) {
	const block = `location / { proxy_request_buffering off; proxy_http_version 1.1; proxy_pass http://%[1]s; }
		location /fcgi { fastcgi_request_buffering off; fastcgi_pass %[1]s; }`
	first := make(chan string)
	to := rawUpstream(t, func(nc net.Conn) {
		b := make([]byte, 64<<10)
		n, _ := nc.Read(b)
		first <- string(b[:n])
	})
	servers := map[string]func() string{
		"tare": func() string { return serveTare(t, "", fmt.Sprintf(block, to)) },
		"nginx": func() string {
			_, dir := serveNginx(t, "", fmt.Sprintf(block, to))
			return filepath.Join(dir, "s")
		},
	}
	for name, start := range servers {
		t.Run(name, func(t *testing.T) {
			socket := start()
			for _, test := range []struct{ path, field, body, want string }{
				{"/", "Content-Length: 10", "begin", "\r\n\r\nbegin"},
				{"/", "Transfer-Encoding: chunked", "5\r\nbegin\r\n", "\r\n\r\n5\r\nbegin\r\n"},
				{"/fcgi", "Content-Length: 10", "begin", "begin"},
			} {
				nc, err := net.Dial("unix", socket)
				must(t, err)
				_, err = io.WriteString(nc, "POST "+test.path+" HTTP/1.1\r\nHost: x\r\n"+test.field+"\r\n\r\n"+
					test.body)
				must(t, err)
				got := strings.TrimRight(<-first, "\x00") // the padding of a record
				if nc.Close(); !strings.HasSuffix(got, test.want) {
					t.Errorf("%s, %s: %q", test.path, test.field, got)
				}
			}
		})
	}
}
