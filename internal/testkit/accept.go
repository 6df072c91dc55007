package testkit

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
)

// Connect connects to a listener, and returns both ends of the connection. They are closed when the
// test ends.
func Connect(t testing.TB, l net.Listener, dialer *net.Dialer) (client, accepted net.Conn) {
	t.Helper()
	client, err := dialer.DialContext(t.Context(), l.Addr().Network(), l.Addr().String())
	Must(t, err)
	t.Cleanup(func() { client.Close() })
	accepted, err = l.Accept()
	Must(t, err)
	t.Cleanup(func() { accepted.Close() })
	return client, accepted
}

// Control calls f with the descriptor of a connection or a listener.
func Control(t testing.TB, of any, f func(fd int)) {
	t.Helper()
	raw := Value(of.(syscall.Conn).SyscallConn())(t)
	Must(t, raw.Control(func(fd uintptr) { f(int(fd)) }))
}

// ServeUnix listens on a unix socket until the test ends, and serves as ServeTCP does.
func ServeUnix(t testing.TB, path string, serve func(net.Conn)) {
	t.Helper()
	listenAndServe(t, "unix", path, serve)
}

// ServeTCP listens on a port until the test ends, and returns its address. Each connection is served
// in a goroutine of its own, and closed when serve returns. The end of the test waits for that.
func ServeTCP(t testing.TB, serve func(net.Conn)) (address string) {
	t.Helper()
	return listenAndServe(t, "tcp", "127.0.0.1:0", serve)
}

// Listen listens on an address that no other process uses: nobody responds there once it is closed.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	host, pid := "127.0.0.1", os.Getpid()
	if runtime.GOOS == "linux" { // where all of 127.0.0.0/8 is the loopback
		host = fmt.Sprintf("127.%d.%d.%d", 1+pid>>16, pid>>8&0xff, pid&0xff)
	}
	return Value(net.Listen("tcp", host+":0"))(t)
}

func listenAndServe(t testing.TB, network, address string, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen(network, address)
	Must(t, err)
	wait := Accept(l, func(_ int, c net.Conn) { serve(c) })
	t.Cleanup(func() {
		l.Close()
		wait()
	})
	return l.Addr().String()
}

// Accept serves each connection of a listener in a goroutine of its own, and closes the connection
// when serve returns. n is its number, from 0. The result waits until the listener is closed and
// all connections have been served.
func Accept(l net.Listener, serve func(n int, c net.Conn)) (wait func()) {
	var all sync.WaitGroup
	all.Go(func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				serve(n, c)
			})
		}
	})
	return all.Wait
}
