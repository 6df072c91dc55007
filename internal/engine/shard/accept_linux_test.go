package shard

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"sync"
	"syscall"
	"testing"
	"time"

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

// Another process or File.Fd can make a listening socket blocking. Loops never block in it.
func TestLoopsDoNotAcceptFromBlockingSockets(t *testing.T) {
	s := serveOn(t, tcpListener(t), nil)
	raw, err := s.listener.(*net.TCPListener).SyscallConn()
	testkit.Must(t, err)
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

// If the holder of a listener is held up, another shard accepts.
func TestStuckShardPassesListenerOn(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	s := serveOn(t, tcpListener(t), nil)
	for start := time.Now(); ; {
		if time.Since(start) > time.Minute {
			t.Fatal("the holder has not changed")
		}
		s.reachShards()
		a := s.sharing()
		if a == nil {
			continue // package net accepts again
		}
		holder := func() int {
			a.mu.Lock()
			defer a.mu.Unlock()
			return a.holder
		}
		before := holder()
		all := make(observations, 2)
		a.passFromStalled(all)
		if holder() != before {
			t.Fatal("a shard that is not stuck passes the listener on")
		}
		all[before] = observation{work: isHeldUp}
		a.passFromStalled(all)
		if holder() != before {
			break
		}
	}
	for range 20 {
		s.connect()
	}
}

// churn makes connections that end after a request.
func (s *site) churn(conns int) {
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

// sharing returns the acceptor for which shards accept, and which holds a descriptor then, or nil.
func (s *site) sharing() (a *acceptor) {
	s.server.group.acceptors.Range(func(_, one any) bool {
		a = one.(*acceptor)
		return false
	})
	return a
}

// rest returns what the process holds when no connection is open and package net accepts.
func (s *site) rest() (descriptors int, heap uint64) {
	s.Helper()
	testkit.WaitFor(s, "the end of all connections, and for package net to accept", func() bool {
		return s.server.group.Open() == 0 && s.sharing() == nil
	})
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	entries, err := os.ReadDir("/proc/self/fd")
	testkit.Must(s, err)
	return len(entries), m.HeapAlloc
}

// Connections that come and go leave neither descriptors nor memory behind.
func TestConnectionsLeaveNothingBehind(t *testing.T) {
	testkit.Long(t, "it opens many connections")
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
			s := serveOn(t, l, nil)
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
