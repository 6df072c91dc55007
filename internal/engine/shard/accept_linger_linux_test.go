package shard

import (
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

// To close a connection may block if its listener lingers. A loop then informs the scheduler.
func TestListenersThatLingerAreRecognized(t *testing.T) {
	for _, want := range []bool{false, true} {
		l := tcpListener(t)
		raw, err := l.(*net.TCPListener).SyscallConn()
		testkit.Must(t, err)
		if want {
			var failed error
			err = raw.Control(func(fd uintptr) {
				failed = syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER,
					&syscall.Linger{Onoff: 1, Linger: 1})
			})
			if err != nil || failed != nil {
				t.Fatal(err, failed)
			}
		}
		s := serveOn(t, l, nil)
		s.reachShards()
		if got := s.server.config.lingers; got != want {
			t.Errorf("lingers is %v, want %v", got, want)
		}
		c, _ := s.connect()
		c.SetDeadline(time.Now().Add(time.Minute))
		if _, err := io.WriteString(c, lastRequest); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(c); err != nil {
			t.Error(err)
		}
	}
}
