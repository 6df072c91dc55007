package front_test

import (
	"bytes"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
)

// A client that stops sending a body while it is forwarded is disconnected without a response, as
// by nginx, and the access log has 408. No upstream is held to blame for it: none is logged, and no
// other one is tried.
func TestClientThatStopsSendingIsDisconnected(t *testing.T) {
	for _, protocol := range []string{"", "fastcgi"} {
		for _, length := range []string{"100", "100000"} {
			to := rawUpstream(t, func(nc net.Conn) { _, _ = io.Copy(io.Discard, nc) })
			backup := rawUpstream(t, func(net.Conn) { t.Error("another server was tried") })
			c := proxyTo(conf.Proxy{To: "up", Protocol: protocol, StreamRequest: true})
			access := filepath.Join(t.TempDir(), "access.log")
			c.Hosts[0].Locations[0].BodyTimeout = 100 * time.Millisecond
			c.Hosts[0].Locations[0].ErrorPages = []conf.ErrorPage{{Statuses: []int{408}, Target: "/page"}}
			c.Hosts[0].Locations[0].Logs = []conf.Log{{Path: access, Format: "short"}}
			c.LogFormats = []conf.LogFormat{{Name: "short", Text: "$status $bytes_sent"}}
			c.Upstreams = []conf.Upstream{{Name: "up", Servers: []conf.Server{{Addr: to},
				{Addr: backup, Backup: true}}}}
			var logged bytes.Buffer
			h := newFront(t, c, front.LogErrors(log.New(&logged, "", 0)))
			server := tare.Wrap(&http.Server{Handler: h})
			l, err := net.Listen("tcp", "127.0.0.1:0")
			must(t, err)
			go func() { _ = server.Serve(l) }()
			nc, err := net.Dial("tcp", l.Addr().String())
			must(t, err)
			_, err = io.WriteString(nc, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: "+length+"\r\n\r\nbegin")
			must(t, err)
			received, err := io.ReadAll(nc)
			must(t, err)
			nc.Close()
			must(t, server.Shutdown(t.Context()))
			must(t, h.Close())
			if line, err := os.ReadFile(access); string(line) != "408 0\n" || err != nil || len(received) > 0 ||
				logged.Len() > 0 {
				t.Errorf("%v, %s bytes: %q, %v, the access log has %q and the error log %q", protocol, length,
					received, err, line, &logged)
			}
		}
	}
}
