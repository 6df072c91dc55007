package shard

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/poll"
	"github.com/tarehq/tare/internal/testkit"
)

func TestShardsAcceptEquallyManyConnections(t *testing.T) {
	const procs, spareFiles = 4, 200
	var files syscall.Rlimit
	testkit.Must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files))
	conns := min(1000, (int(files.Cur)-spareFiles)/2) // this process has both ends
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
	s := serveOn(t, tcpListener(t), nil)
	s.reachShards()
	g := s.server.group
	testkit.WaitFor(t, "the end of all connections", func() bool { return g.Open() == 0 })
	before := s.byShards()
	for range conns {
		s.connect()
	}
	testkit.Between(t, s.byShards()-before, conns*8/10, conns, "connections that shards have accepted")
	var each [procs]int
	g.conns.each(func(k *shardConn) { each[k.shard().index]++ })
	for _, n := range each {
		testkit.Between(t, n, conns/procs*9/10, conns/procs*11/10, "connections of a shard, of", each)
	}
}

// Another process or File.Fd can make a listening socket blocking. Loops never block in it.
func TestLoopsDoNotAcceptFromBlockingSockets(t *testing.T) {
	s := serveOn(t, tcpListener(t), nil)
	setNonblock := func(nonblocking bool) {
		testkit.Control(t, s.listener, func(fd int) { testkit.Check(t, syscall.SetNonblock(fd, nonblocking)) })
	}
	s.reachShards()
	setNonblock(false)
	defer func() { // else Close waits for package net's call, as that of net/http
		setNonblock(true)
		s.connect()
	}()
	var all []net.Conn
	for range 5 {
		all = append(all, s.connect())
	}
	before := s.byShards()
	for range 50 {
		s.connect()
		for _, c := range all {
			testkit.Value(request(c))(t)
		}
	}
	testkit.Equal(t, s.byShards()-before, 0, "connections that shards have accepted from a blocking socket")
}

func (s *site) churn(conns int) {
	const clients = 8
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for i := range conns / clients {
				c, _, err := s.try()
				testkit.Must(s, err)
				if tc, ok := c.(*net.TCPConn); ok && i%8 > 0 {
					tc.SetLinger(0) // 100,000 ports would be too many
				}
				c.Close()
			}
		})
	}
	all.Wait()
}

// rest returns what the process holds when no connection is open and package net accepts.
func (s *site) rest() (descriptors int, heap uint64) {
	s.Helper()
	testkit.WaitFor(s, "the end of all connections, and for package net to accept", func() bool {
		shared := false // the acceptor for which shards accept has a descriptor
		s.server.group.acceptors.Range(func(any, any) bool { shared = true; return false })
		return s.server.group.Open() == 0 && !shared
	})
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return testkit.OpenFiles(), m.HeapAlloc
}

// Connections that come and go leave neither descriptors nor memory behind.
func TestConnectionsLeaveNothingBehind(t *testing.T) {
	testkit.Long(t, "it opens many connections")
	conns := 3000
	if testkit.Slow() {
		conns = 100_000
	}
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			address := map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")}[network]
			s := serveOn(t, testkit.Value(net.Listen(network, address))(t), nil)
			s.churn(conns / 4)
			descriptors, heap := s.rest()
			before := s.byShards()
			s.churn(conns)
			testkit.Between(t, s.byShards()-before, conns/2, conns, "connections that shards have accepted")
			afterDescriptors, afterHeap := s.rest()
			testkit.Between(t, afterDescriptors, 0, descriptors, "descriptors")
			testkit.Between(t, afterHeap, 0, heap+50*uint64(conns), "bytes of memory after", conns, "connections")
		})
	}
}

// placing returns the shards of a new server, one of them, and a connected descriptor.
func placing(t *testing.T) (s *testServer, on *shard, fd int) {
	t.Helper()
	s = newTestServer(t, nil, nil, nil)
	fd, client := testkit.SocketPair(t)
	client.Close()
	return s, s.group.chooseShard(), fd
}

func TestCloseClosesConnectionThatIsBeingPlaced(t *testing.T) {
	for i := range 600 {
		s, on, fd := placing(t)
		g := s.group
		var closing sync.WaitGroup
		begin := make(chan bool)
		closing.Go(func() { <-begin; s.Close() })
		close(begin)
		for range i % 200 { // another moment each time
			_ = g.now()
		}
		s.placeConn(on, fd)
		closing.Wait()
		testkit.Equal(t, g.Open(), 0, "connections after Close")
	}
}

// A connection that was closed just after it was placed is not added to a loop. Another file may
// have its descriptor.
func TestClosedConnectionIsNotAddedToLoop(t *testing.T) {
	s, on, other := placing(t)
	defer s.Close()
	s.placeConn(on, other) // keeps the shards
	const fd = 500         // which nothing else takes
	testkit.Must(t, syscall.Dup3(other, fd, syscall.O_CLOEXEC))
	k := s.placeConn(on, fd)
	testkit.Must(t, k.Close())
	testkit.Must(t, syscall.Dup3(other, fd, syscall.O_CLOEXEC))
	defer syscall.Close(fd)
	k.addOrClose()
	testkit.Check(t, on.loop.Add(fd, fd, 0)) // else the loop reports events of another file
}

func TestTableRefusesHighDescriptors(t *testing.T) {
	const fd = tablePages * pageConns
	var table connTable
	k := new(shardConn)
	testkit.Equal(t, table.put(fd, k), false, "put accepts it")
	table.remove(fd, k) // by Close
}

// A listening socket that another process has, too, stays open when this one closes it. The
// connections that wait for the other process do not keep the loops of this one busy.
func TestLoopsSleepAfterSharedListenerIsClosed(t *testing.T) {
	testkit.Long(t, "it watches idle loops")
	for name, end := range map[string]func(*site){
		"shutdown": func(s *site) {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			_ = s.server.Shutdown(ctx)
		},
		"listener": func(s *site) { s.listener.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			release := make(chan bool)
			s := serveOn(t, tcpListener(t), func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/keep" {
					<-release // keeps the shards
				}
				io.WriteString(w, "done")
			})
			other := testkit.Value(s.listener.(*net.TCPListener).File())(t) // as the child of a graceful restart
			defer other.Close()
			defer close(release)
			s.reachShards()
			newClient(t, s.listener).request("/keep", "")
			stop := s.keepBusy(4, func() {
				if c, err := net.Dial("tcp", s.listener.Addr().String()); err == nil {
					c.SetDeadline(time.Now().Add(100 * time.Millisecond))
					io.WriteString(c, firstRequest)
					c.Read(make([]byte, 1))
					c.Close()
				}
			})
			time.Sleep(100 * time.Millisecond)
			end(s)
			<-s.served
			stop()
			before := s.server.turns()
			time.Sleep(200 * time.Millisecond)
			testkit.Between(t, s.server.turns()-before, 0, 100, "events while nothing happened")
		})
	}
}

// To close a connection may block if its listener lingers. A loop then informs the scheduler.
func TestListenersThatLingerAreRecognized(t *testing.T) {
	for _, want := range []bool{false, true} {
		l := tcpListener(t)
		if want {
			testkit.Control(t, l, func(fd int) {
				testkit.Must(t, syscall.SetsockoptLinger(fd, syscall.SOL_SOCKET, syscall.SO_LINGER,
					&syscall.Linger{Onoff: 1, Linger: 1}))
			})
		}
		s := serveOn(t, l, nil)
		s.reachShards()
		testkit.Equal(t, s.server.config.lingers, want, "lingers")
		c := s.connect()
		c.request("/", "Connection: close\r\n")
		testkit.Value(io.ReadAll(c))(t)
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
	for name, config := range map[string]*net.ListenConfig{
		"default":      {},
		"15 minutes":   {KeepAlive: 15 * time.Minute},
		"no keepalive": {KeepAlive: -1},
		"all set": {KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 7 * time.Second,
			Interval: 3 * time.Second, Count: 4}},
		"idle only": {KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 9 * time.Second,
			Interval: -1, Count: -1}},
	} {
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
			l, err := net.Listen("tcp", address[0])
			if address[1] == "" || err != nil {
				t.Skip("no such address: ", err)
			}
			s := serveOn(t, l, nil)
			_, port, _ := net.SplitHostPort(l.Addr().String())
			s.wantRemoteAddr(func() (c net.Conn, want string) {
				c = testkit.Value(net.Dial("tcp", net.JoinHostPort(address[1], port)))(t)
				return c, c.LocalAddr().String()
			})
		})
	}
	path, own := filepath.Join(t.TempDir(), "s"), filepath.Join(t.TempDir(), "client")
	for _, name := range []string{"", own, "@" + own} {
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
			return testkit.Value(dialer.Dial("unix", path))(t), nc.RemoteAddr().String()
		})
		s.server.Close()
		<-s.served
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
