package shard

import (
	"fmt"
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/poll"
	"github.com/tarehq/tare/internal/testkit"
)

// listenWays are configurations of package net's listeners.
func listenWays() map[string]*net.ListenConfig {
	return map[string]*net.ListenConfig{
		"default":      {},
		"15 minutes":   {KeepAlive: 15 * time.Minute},
		"no keepalive": {KeepAlive: -1},
		"all set": {KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 7 * time.Second,
			Interval: 3 * time.Second, Count: 4}},
		"idle only": {KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 9 * time.Second,
			Interval: -1, Count: -1}},
	}
}

// netOptions returns the options of a connection that package net has accepted.
func netOptions(t *testing.T, config *net.ListenConfig, dialer *net.Dialer) (options poll.AcceptedOptions) {
	t.Helper()
	l := testkit.Value(config.Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	_, nc := testkit.Connect(t, l, dialer)
	testkit.Control(t, nc, func(fd int) { options = testkit.Value(poll.ReadAcceptedOptions(fd))(t) })
	return options
}

// Connections have the options that package net gives them, whether they waited before Serve or
// came later, and whether they are of multipath TCP.
func TestAcceptedConnectionsHaveOptionsOfPackageNet(t *testing.T) {
	for name, config := range listenWays() {
		for i := range 4 {
			dialer := new(net.Dialer)
			config.SetMultipathTCP(i&1 != 0)
			dialer.SetMultipathTCP(i&2 != 0)
			t.Run(fmt.Sprint(name, i), func(t *testing.T) {
				want := netOptions(t, config, dialer)
				l := testkit.Value(config.Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
				var all []net.Conn
				dial := func(n int) {
					for range n {
						c := testkit.Value(dialer.Dial("tcp", l.Addr().String()))(t)
						t.Cleanup(func() { c.Close() })
						all = append(all, c)
					}
				}
				dial(30)
				s := serveOn(t, l, nil)
				s.reachShards()
				dial(70)
				for _, c := range all {
					testkit.Value(request(c))(t)
				}
				testkit.Between(t, s.byShards(), 40, 1000, "connections that shards have accepted")
				s.server.group.conns.each(func(k *shardConn) {
					if !k.acquire() {
						return
					}
					defer k.release()
					got, err := poll.ReadAcceptedOptions(int(k.fd))
					testkit.Check(t, err)
					testkit.Equal(t, got, want, "package net's options")
				})
			})
		}
	}
}

// RemoteAddr has package net's form, whichever way a connection was accepted.
func TestRemoteAddrHasFormOfPackageNet(t *testing.T) {
	for _, address := range [][2]string{
		{"127.0.0.1:0", "127.0.0.1"}, {"[::1]:0", "::1"}, {"[::]:0", "127.0.0.1"}, {"[::]:0", "::1"},
		{"[::]:0", linkLocal(t)},
	} {
		t.Run(address[0]+" from "+address[1], func(t *testing.T) {
			if address[1] == "" {
				t.Skip("no interface has a link-local address")
			}
			l, err := net.Listen("tcp", address[0])
			if err != nil {
				t.Skip(err)
			}
			s := serveOn(t, l, nil)
			_, port, _ := net.SplitHostPort(l.Addr().String())
			s.wantRemoteAddr(func() (c net.Conn, want string) {
				c = testkit.Value(net.Dial("tcp", net.JoinHostPort(address[1], port)))(t)
				return c, c.LocalAddr().String()
			})
		})
	}
}

// wantRemoteAddr makes connections until shards have accepted 20, and fails unless the handler sees
// the wanted addresses.
func (s *site) wantRemoteAddr(dial func() (c net.Conn, want string)) {
	s.Helper()
	testkit.WaitFor(s, "shards to accept", func() bool {
		c, want := dial()
		defer c.Close()
		testkit.Equal(s, testkit.Value(request(c))(s), want)
		return s.byShards() >= 20
	})
}

// linkLocal returns a link-local address of this machine with its zone, or "".
func linkLocal(t *testing.T) string {
	t.Helper()
	all := testkit.Value(net.Interfaces())(t)
	for _, i := range all {
		addrs, _ := i.Addrs()
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && n.IP.To4() == nil && n.IP.IsLinkLocalUnicast() {
				return n.IP.String() + "%" + i.Name
			}
		}
	}
	return ""
}

func TestRemoteAddrOfUnixSocketHasFormOfPackageNet(t *testing.T) {
	path, own := filepath.Join(t.TempDir(), "s"), filepath.Join(t.TempDir(), "client")
	for _, name := range []string{"", own, "@tare-" + t.Name()} {
		l := testkit.Value(net.Listen("unix", path))(t)
		dialer := new(net.Dialer)
		if name != "" {
			dialer.LocalAddr = &net.UnixAddr{Name: name, Net: "unix"}
		}
		c, nc := testkit.Connect(t, l, dialer)
		c.Close()
		s := serveOn(t, l, nil)
		s.wantRemoteAddr(func() (net.Conn, string) {
			_ = syscall.Unlink(own)
			c := testkit.Value(dialer.Dial("unix", path))(t)
			return c, nc.RemoteAddr().String()
		})
		s.server.Close()
		<-s.served
	}
}
