package engine_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// The server acknowledges the client's last message of a TLS handshake at once, to which it sends
// nothing: a client that uses Nagle's algorithm waits for that before it sends its request. The
// kernel reports whether it would have delayed this acknowledgment.
func TestHandshakesAreAcknowledgedAtOnce(t *testing.T) {
	someModes(t, handle(func(w http.ResponseWriter, _ *http.Request) {
		nc, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer nc.Close()
		raw, err := nc.(*tls.Conn).NetConn().(syscall.Conn).SyscallConn()
		if err != nil {
			t.Error(err)
			return
		}
		var quick int
		_ = raw.Control(func(fd uintptr) {
			quick, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_QUICKACK)
		})
		fmt.Fprint(nc, quick, err)
	}), func(s *site) {
		c := s.connect()
		io.WriteString(c, get)
		if b, err := io.ReadAll(c); !strings.HasPrefix(string(b), "1 <nil>") {
			s.Errorf("%q, %v", b, err)
		}
	}, "tls", "ServeTLS")
}
