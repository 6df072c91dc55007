package engine

import (
	"bufio"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// acceptSite is a server whose connections are accepted by shards if they arrive fast.
type acceptSite struct {
	*testing.T
	server   *Server
	listener net.Listener
	served   chan error
}

func serveOn(t *testing.T, l net.Listener, settings *http.Server) *acceptSite {
	t.Helper()
	if settings.Handler == nil {
		settings.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.WriteString(w, r.RemoteAddr)
		})
	}
	s := &acceptSite{t, New(settings), l, make(chan error, 2)}
	s.serve()
	t.Cleanup(func() { s.server.Close() })
	return s
}

func (s *acceptSite) serve() { go func() { s.served <- s.server.Serve(s.listener) }() }

func tcpListener(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// try makes a connection, and a request on it.
func (s *acceptSite) try() (c net.Conn, body string, err error) {
	c, err = net.Dial(s.listener.Addr().Network(), s.listener.Addr().String())
	if err == nil {
		body, err = request(c)
	}
	return c, body, err
}

// request makes a request on a connection.
func request(c net.Conn) (body string, err error) {
	c.SetDeadline(time.Now().Add(time.Minute))
	if _, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err != nil {
		return "", err
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return "", err
	}
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// connect is try for a connection that stays open until the test ends.
func (s *acceptSite) connect() (c net.Conn, body string) {
	s.Helper()
	c, body, err := s.try()
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { c.Close() })
	return c, body
}

// byShards returns how many connections shards have accepted.
func (s *acceptSite) byShards() int {
	g := s.server.group()
	if g == nil {
		return 0
	}
	return int(s.server.state.AcceptedConns.Load()) - int(g.nextShard.Load())
}

// reachShards makes connections until a shard accepts one.
func (s *acceptSite) reachShards() {
	s.Helper()
	before := s.byShards()
	for start := time.Now(); s.byShards() == before; {
		c, _, err := s.try()
		if err != nil {
			s.Fatal(err)
		}
		c.Close()
		if time.Since(start) > time.Minute {
			s.Fatal("no shard accepts")
		}
	}
}

func TestShardsAcceptEquallyManyConnections(t *testing.T) {
	const procs, conns = 4, 1000
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(procs))
	s := serveOn(t, tcpListener(t), &http.Server{})
	s.reachShards()
	g := s.server.group()
	for end := time.Now().Add(time.Minute); g.open() > 0 && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	before := s.byShards()
	for range conns {
		s.connect()
	}
	if n := s.byShards() - before; n < conns*8/10 {
		t.Errorf("shards have accepted %d of %d connections", n, conns)
	}
	var each [procs]int
	g.conns.each(func(k *shardConn) { each[k.shard().index]++ })
	for _, n := range each {
		if n < conns/procs*9/10 || n > conns/procs*11/10 {
			t.Errorf("shards have %v of %d connections", each, conns)
			break
		}
	}
}

// If its owner closes a listener to which connections arrive all the time, the kernel refuses the
// next one, and Serve returns.
func TestServeReturnsAfterBusyListenerIsClosed(t *testing.T) {
	s := serveOn(t, tcpListener(t), &http.Server{})
	s.reachShards()
	stop := make(chan bool)
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if c, _, err := s.try(); err == nil {
					c.Close()
				}
			}
		})
	}
	defer func() { close(stop); clients.Wait() }()
	time.Sleep(20 * time.Millisecond)
	s.listener.Close()
	if c, err := net.Dial("tcp", s.listener.Addr().String()); err == nil {
		t.Error("the kernel accepts connections of a closed listener")
		c.Close()
	}
	select {
	case err := <-s.served:
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("Serve returned %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("Serve does not return")
	}
}

func TestServersEndWhileShardsAccept(t *testing.T) {
	for name, end := range map[string]func(*Server) error{
		"shutdown": func(s *Server) error { return s.Shutdown(t.Context()) }, "close": (*Server).Close,
	} {
		t.Run(name, func(t *testing.T) {
			for range 10 {
				s := serveOn(t, tcpListener(t), &http.Server{})
				s.reachShards()
				var clients sync.WaitGroup
				for range 4 {
					clients.Go(func() {
						for {
							c, _, err := s.try()
							if c != nil {
								c.Close()
							}
							if err != nil {
								return
							}
						}
					})
				}
				time.Sleep(5 * time.Millisecond)
				if err := end(s.server); err != nil {
					t.Error(err)
				}
				if err := <-s.served; !errors.Is(err, http.ErrServerClosed) {
					t.Errorf("Serve returned %v", err)
				}
				clients.Wait()
			}
		})
	}
}

// Two Serve calls for one listener share its connections.
func TestListenerMayBeServedTwice(t *testing.T) {
	s := serveOn(t, tcpListener(t), &http.Server{})
	s.serve()
	s.reachShards()
	for range 500 {
		s.connect()
	}
	s.server.Close()
	for range 2 {
		if err := <-s.served; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("Serve returned %v", err)
		}
	}
}

// Another process or File.Fd can make a listening socket blocking. Loops never block in it.
func TestLoopsDoNotAcceptFromBlockingSockets(t *testing.T) {
	s := serveOn(t, tcpListener(t), &http.Server{})
	raw, err := s.listener.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	setNonblock := func(nonblocking bool) {
		if err := raw.Control(func(fd uintptr) {
			if err := syscall.SetNonblock(int(fd), nonblocking); err != nil {
				t.Error(err)
			}
		}); err != nil {
			t.Error(err)
		}
	}
	s.reachShards()
	setNonblock(false)
	defer func() { // else Close waits for package net's call, as that of net/http
		setNonblock(true)
		s.connect()
	}()
	var all []net.Conn
	for range 5 {
		c, _ := s.connect()
		all = append(all, c)
	}
	before := s.byShards()
	for range 50 {
		s.connect()
		for _, c := range all {
			if _, err := request(c); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := s.byShards() - before; n > 0 {
		t.Errorf("shards have accepted %d connections from a blocking socket", n)
	}
}

// A deadline of the listener makes Serve wait, as net/http's Serve, and log that.
func TestDeadlineOfListenerIsLoggedAndTriedAgain(t *testing.T) {
	var logged lockedText
	s := serveOn(t, tcpListener(t), &http.Server{ErrorLog: log.New(&logged, "", 0)})
	s.reachShards()
	if err := s.listener.(*net.TCPListener).SetDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	for start := time.Now(); !strings.Contains(logged.text(), "Accept error: "); time.Sleep(time.Millisecond) {
		if time.Since(start) > time.Minute {
			t.Fatalf("logged: %q", logged.text())
		}
	}
	if err := s.listener.(*net.TCPListener).SetDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	s.connect()
}

type lockedText struct {
	mu sync.Mutex
	b  strings.Builder
}

func (b *lockedText) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedText) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// If the holder of a listener is held up, another shard accepts.
func TestStuckShardPassesListenerOn(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	s := serveOn(t, tcpListener(t), &http.Server{})
	g := s.server.group
	for start := time.Now(); ; {
		if time.Since(start) > time.Minute {
			t.Fatal("the holder has not changed")
		}
		s.reachShards()
		i := 0
		for i < len(g().acceptors.load()) && g().acceptors.load()[i] == nil {
			i++
		}
		if i == len(g().acceptors.load()) {
			continue // package net accepts again
		}
		a := g().acceptors.load()[i]
		holder := func() int {
			a.mu.Lock()
			defer a.mu.Unlock()
			return a.holder
		}
		before := holder()
		all := make(observations, 2)
		a.passFromStuck(all)
		if holder() != before {
			t.Fatal("a shard that is not stuck passes the listener on")
		}
		all[before] = observation{isServing: true, isStuck: true}
		a.passFromStuck(all)
		if holder() != before {
			break
		}
	}
	for range 20 {
		s.connect()
	}
}

// churn makes connections that end after a request.
func (s *acceptSite) churn(conns int) {
	const clients = 8
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for i := range conns / clients {
				c, _, err := s.try()
				if err != nil {
					s.Error(err)
					return
				}
				if tc, ok := c.(*net.TCPConn); ok && i%8 > 0 {
					tc.SetLinger(0) // 100,000 ports would be too many
				}
				c.Close()
			}
		})
	}
	all.Wait()
}

// rest returns what the process holds when no connection is open.
func (s *acceptSite) rest() (descriptors int, heap uint64) {
	s.Helper()
	for start := time.Now(); s.server.group().open() > 0; time.Sleep(time.Millisecond) {
		if time.Since(start) > time.Minute {
			s.Fatalf("%d connections are open", s.server.group().open())
		}
	}
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		s.Fatal(err)
	}
	return len(entries), m.HeapAlloc
}

// Connections that come and go leave neither descriptors nor memory behind.
func TestConnectionsLeaveNothingBehind(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(99)) // servers reserve no memory
	conns := 6000
	if os.Getenv("TARE_SLOW") != "" {
		conns = 100_000
	}
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			l := tcpListener(t)
			if network == "unix" {
				l.Close()
				var err error
				if l, err = net.Listen("unix", filepath.Join(t.TempDir(), "s")); err != nil {
					t.Fatal(err)
				}
			}
			s := serveOn(t, l, &http.Server{})
			s.churn(conns / 4)
			descriptors, heap := s.rest()
			before := s.byShards()
			s.churn(conns)
			if n := s.byShards() - before; n < conns/2 {
				t.Errorf("shards have accepted %d of %d connections", n, conns)
			}
			afterDescriptors, afterHeap := s.rest()
			if afterDescriptors > descriptors {
				t.Errorf("%d descriptors, %d before", afterDescriptors, descriptors)
			}
			if most := heap + 50*uint64(conns); afterHeap > most {
				t.Errorf("%d bytes after %d connections, %d before", afterHeap, conns, heap)
			}
		})
	}
}
