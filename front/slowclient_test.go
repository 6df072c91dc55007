package front_test

import (
	"bufio"
	"bytes"
	"io"
	"log"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
)

// A client that stops sending a body while it is forwarded gets 408, as from nginx, and no upstream
// is held to blame for it: none is logged, and no other one is tried.
func TestClientThatStopsSendingGets408(t *testing.T) {
	for _, protocol := range []string{"", "fastcgi"} {
		for _, length := range []string{"100", "100000"} {
			to := rawUpstream(t, func(nc net.Conn) { _, _ = io.Copy(io.Discard, nc) })
			backup := rawUpstream(t, func(net.Conn) { t.Error("another server was tried") })
			c := proxyTo(conf.Proxy{To: "up", Protocol: protocol, StreamRequest: true})
			c.Hosts[0].Locations[0].BodyTimeout = 100 * time.Millisecond
			c.Upstreams = []conf.Upstream{{Name: "up", Servers: []conf.Server{{Addr: to},
				{Addr: backup, Backup: true}}}}
			var logged bytes.Buffer
			server := tare.Wrap(&http.Server{Handler: newFront(t, c, front.LogErrors(log.New(&logged, "", 0)))})
			l, err := net.Listen("tcp", "127.0.0.1:0")
			must(t, err)
			go func() { _ = server.Serve(l) }()
			nc, err := net.Dial("tcp", l.Addr().String())
			must(t, err)
			_, err = io.WriteString(nc, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: "+length+"\r\n\r\nbegin")
			must(t, err)
			resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
			must(t, err)
			nc.Close()
			must(t, server.Close())
			if resp.StatusCode != http.StatusRequestTimeout || logged.Len() > 0 {
				t.Errorf("%v, %s bytes: %s, and the log says %q", protocol, length, resp.Status, &logged)
			}
		}
	}
}
