package server_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"github.com/tarehq/tare/internal/testkit"
)

// withoutSocket is upgradable without its unix socket.
func withoutSocket() string { return strings.Replace(upgradable, " listen unix:DIR/socket;", "", 1) }

// A unix socket that the new configuration does not have is removed by the new process, and stays
// if that process fails.
func TestDroppedUnixSocketIsRemoved(t *testing.T) {
	s := newSite(t, time.Hour)
	s.write("nginx.conf", withoutSocket())
	s.write("fault", exits)
	s.Signal(s.PID(), syscall.SIGUSR2)
	s.AwaitLog("upgrade: failed, this", 1)
	c, err := net.Dial("unix", s.Path("socket"))
	if err != nil {
		t.Fatalf("after a failed upgrade: %v", err)
	}
	c.Close()
	s.write("fault", "")
	old := s.upgrade()
	s.Eventually("the socket's file is removed", func() bool {
		_, err := os.Lstat(s.Path("socket"))
		return os.IsNotExist(err)
	})
	s.end(old)
}

// largeByHTTP3 starts the download of a large file. The client receives no more than is read.
func (s *site) largeByHTTP3() (body io.Reader) {
	s.Helper()
	transport := &http3.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true},
		QUICConfig: &quic.Config{InitialStreamReceiveWindow: 10 << 10, MaxStreamReceiveWindow: 10 << 10}}
	s.Cleanup(func() { transport.Close() })
	req, err := http.NewRequestWithContext(s.Context(), http.MethodGet, "https://"+s.host+":8443/large", nil)
	testkit.Must(s, err)
	resp, err := transport.RoundTrip(req)
	testkit.Must(s, err)
	s.Cleanup(func() { resp.Body.Close() })
	return resp.Body
}

// neverReading starts the download of a large file by a client that never reads its body.
func (s *site) neverReading(protocol string) {
	s.Helper()
	if protocol == "HTTP/3" {
		s.largeByHTTP3()
		return
	}
	c, err := net.Dial("tcp", s.host+":8000")
	if err == nil {
		s.Cleanup(func() { c.Close() })
		_, err = fmt.Fprint(c, "GET /large HTTP/1.1\r\nHost: host\r\n\r\n")
	}
	if err == nil {
		_, err = io.ReadFull(c, make([]byte, 1))
	}
	testkit.Must(s, err)
}

// A client that never reads holds up the end of an old process no longer than send_timeout.
func TestOldProcessEndsWithClientThatNeverReads(t *testing.T) {
	testkit.Long(t, "it waits for a timeout")
	for _, protocol := range []string{"HTTP/1.1", "HTTP/3"} {
		t.Run(strings.ReplaceAll(protocol, "/", ""), func(t *testing.T) {
			s := newSiteWith(t, strings.Replace(upgradable, "location / {",
				"send_timeout 1s; location /large { alias DIR/large; } location / {", 1), time.Hour)
			s.write("large", "")
			testkit.Must(t, os.Truncate(s.Path("large"), 256<<20))
			s.neverReading(protocol)
			old := s.upgrade()
			if code := s.Wait(old); code != 0 {
				t.Errorf("exit code %d", code)
			}
			s.end()
		})
	}
}

// withLarge is upgradable with a large file.
func withLarge() string {
	return strings.Replace(upgradable, "location / {", "location /large { alias DIR/large; } location / {", 1)
}

// without is a configuration without HTTP/3.
func without(config string) string { return strings.Replace(config, "listen HOST:8443 quic;", "", 1) }

// largeBytes is the size of that file.
const largeBytes = 1 << 20

// newLargeSite is newSite with a large file.
func newLargeSite(t *testing.T) *site {
	t.Helper()
	s := newSiteWith(t, withLarge(), time.Hour)
	s.write("large", "")
	testkit.Must(t, os.Truncate(s.Path("large"), largeBytes))
	return s
}

// reload reloads a configuration, and waits for a line about the address of HTTP/3 in the log.
func (s *site) reload(config, line string, times int) {
	s.Helper()
	s.write("nginx.conf", config)
	s.Signal(s.PID(), syscall.SIGHUP)
	s.AwaitLog(line+" https://"+s.host+":8443/, by HTTP/3", times)
}

// finish requires the rest of the download.
func (s *site) finish(body io.Reader) {
	s.Helper()
	if n, err := io.Copy(io.Discard, body); n != largeBytes || err != nil {
		s.Errorf("%d bytes of %d, %v", n, largeBytes, err)
	}
}

// A UDP socket that a reload has removed is passed on: its requests finish in the old process,
// whose packets the new one forwards. If the new configuration has the address again, it is served.
func TestRemovedAddressIsServedAgainByUpgrade(t *testing.T) {
	s := newLargeSite(t)
	first := s.largeByHTTP3()
	s.reload(without(withLarge()), "no longer listening on", 1)
	s.write("nginx.conf", withLarge())
	old := s.upgrade()
	second := s.largeByHTTP3()
	s.finish(second)
	s.finish(first)
	s.end(old)
}

// The same socket can be served again after the upgrade, by a reload or by a further upgrade, also
// if it was the first upgrade that has removed it.
func TestRemovedAddressIsServedAgainAfterUpgrade(t *testing.T) {
	s := newLargeSite(t)
	first := s.largeByHTTP3()
	s.write("nginx.conf", without(withLarge()))
	old := s.upgrade()
	s.reload(withLarge(), "listening on", 2)
	second := s.largeByHTTP3()
	s.reload(without(withLarge()), "no longer listening on", 1)
	older := s.upgrade()
	s.write("nginx.conf", withLarge())
	oldest := s.upgrade()
	s.finish(s.largeByHTTP3())
	s.finish(second)
	s.finish(first)
	s.end(old, older, oldest)
}

// A UDP socket that a reload has removed is closed when the requests of the old process have ended.
func TestRemovedAddressDrainsAfterUpgrade(t *testing.T) {
	s := newLargeSite(t)
	body := s.largeByHTTP3()
	s.reload(without(withLarge()), "no longer listening on", 1)
	old := s.upgrade()
	s.finish(body)
	s.Eventually("the address is free", func() bool {
		c, err := net.ListenPacket("udp", s.host+":8443")
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	s.end(old)
}
