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
	"testing/synctest"
	"time"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// A client that stops sending a body while it is forwarded is disconnected without a response, as
// by nginx, and the access log has 408. No upstream is held to blame for it: none is logged, and no
// other one is tried.
func TestClientThatStopsSendingIsDisconnected(t *testing.T) {
	for _, protocol := range []string{"", "fastcgi"} {
		for _, length := range []string{"100", "100000"} {
			to := testkit.ServeTCP(t, func(nc net.Conn) { _, _ = io.Copy(io.Discard, nc) })
			backup := testkit.ServeTCP(t, func(net.Conn) { t.Error("another server was tried") })
			c := proxyTo(conf.Proxy{To: "up", Protocol: protocol, StreamRequest: true})
			access := filepath.Join(t.TempDir(), "access.log")
			c.Hosts[0].Locations[0].Settings = &conf.Settings{BodyTimeout: 100 * time.Millisecond,
				ErrorPages: []conf.ErrorPage{{Statuses: []int{408}, Target: "/page"}},
				Logs:       []conf.Log{{Path: access, Format: "short"}}}
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

// A connection whose client may still be sending is read after its last response as long as nginx
// would read it.
func TestLingerTimesAreNginxs(t *testing.T) {
	const (
		upload = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000000\r\n\r\n"
		get    = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
		step   = 20 * time.Millisecond
	)
	for name, test := range map[string]struct {
		s     conf.Settings
		text  string
		sends bool // the client sends without pause
		want  time.Duration
	}{
		"silent":          {conf.Settings{}, upload, false, 5 * time.Second},
		"sending":         {conf.Settings{}, upload, true, 30 * time.Second},
		"timeout":         {conf.Settings{LingerTimeout: time.Second}, upload, false, time.Second},
		"time":            {conf.Settings{LingerTime: 2 * time.Second}, upload, true, 2 * time.Second},
		"off":             {conf.Settings{Linger: "off"}, upload, true, 0},
		"always":          {conf.Settings{Linger: "always"}, get, false, 5 * time.Second},
		"nothing to read": {conf.Settings{}, get, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := oneHost(conf.Location{Path: "/", Steps: []conf.Step{conf.Return{Status: 403}},
					Settings: &test.s})
				h := newFront(t, c)
				server := tare.Wrap(&http.Server{Handler: h})
				var network testkit.Network
				l := network.Listen()
				served := make(chan error)
				go func() { served <- server.Serve(l) }()
				nc, err := network.Dial()
				must(t, err)
				start := time.Now()
				_, err = io.WriteString(nc, test.text)
				must(t, err)
				for open := int64(1); open > 0 && time.Since(start) < time.Minute; _, open = server.Connections() {
					if test.sends {
						_, _ = io.WriteString(nc, "more")
					}
					time.Sleep(step)
					synctest.Wait()
				}
				if got := time.Since(start); got < test.want || got > test.want+2*step {
					t.Errorf("the connection was open for %v, want %v", got, test.want)
				}
				nc.Close()
				must(t, server.Close())
				<-served
				must(t, h.Close())
			})
		})
	}
}
