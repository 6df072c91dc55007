package front_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// idleUpstream listens on a unix socket, where bytes arrive as soon as they are sent. After the
// first response on each connection it does something to the connection, and then sends to done. No
// further request may arrive there.
func idleUpstream(t *testing.T, then func(net.Conn)) (address string, done <-chan struct{}) {
	path, ended := filepath.Join(shortDir(t), "s"), make(chan struct{})
	testkit.ServeUnix(t, path, func(nc net.Conn) {
		in := bufio.NewReader(nc)
		for n := 0; ; n++ {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			if n > 0 {
				t.Errorf("%s %s was sent on a connection that is not quiet", r.Method, r.URL)
			}
			body, _ := io.ReadAll(r.Body)
			text := fmt.Sprintf("%s %s %s", r.Method, r.URL, body)
			fmt.Fprintf(nc, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
			then(nc)
			ended <- struct{}{}
		}
	})
	return "unix:" + path, ended
}

// What arrives on an idle connection to an upstream never becomes the response to a request, and a
// connection that has ended costs no request, not even one that must not be repeated.
func TestIdleConnectionThatIsNotQuietIsNotUsed(t *testing.T) {
	const stray = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray"
	for name, then := range map[string]func(net.Conn){
		"a response": func(nc net.Conn) { _, _ = io.WriteString(nc, stray) },
		"one byte":   func(nc net.Conn) { _, _ = io.WriteString(nc, "\n") },
		"its end":    func(nc net.Conn) { _ = nc.(*net.UnixConn).CloseWrite() },
		"a response and its end": func(nc net.Conn) {
			_, _ = io.WriteString(nc, stray)
			_ = nc.(*net.UnixConn).CloseWrite()
		},
	} {
		t.Run(name, func(t *testing.T) {
			to, done := idleUpstream(t, then)
			h := newFront(t, conf.Config{
				Upstreams: []conf.Upstream{{Name: "up", Keepalive: 4, Servers: []conf.Server{{Addr: to}}}},
				Hosts: []conf.Host{{Locations: []conf.Location{{Path: "/", Proxy: &conf.Proxy{To: "up",
					Version: "1.1", Header: []conf.Field{{Name: "Connection"}}}}}}},
			}, quiet())
			a := serveHandler(t, h)
			for i := range 12 {
				method, body := "GET", ""
				if i%3 == 2 {
					method, body = "POST", "text"
				}
				path := fmt.Sprintf("/%d", i)
				got := a.do(method, path, strings.NewReader(body))
				if want := fmt.Sprintf("%s %s %s", method, path, body); got.status != 200 || got.body != want {
					t.Errorf("%d %q, want %q", got.status, got.body, want)
				}
				<-done
			}
		})
	}
}
