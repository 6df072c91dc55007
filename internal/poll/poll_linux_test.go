package poll_test

import (
	"io"
	"net"
	"net/netip"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/poll"
	"github.com/tarehq/tare/internal/testkit"
)

func poller(t *testing.T) *poll.Poller {
	t.Helper()
	p := testkit.Value(poll.New())(t)
	t.Cleanup(func() {
		testkit.Check(t, p.Close())
	})
	return p
}

// next waits for an event that satisfies a condition.
func next(t *testing.T, p *poll.Poller, is func(poll.Event) bool) poll.Event {
	t.Helper()
	for range 100 {
		events := testkit.Value(p.Wait(100 * time.Millisecond))(t)
		for _, e := range events {
			if is(e) {
				return e
			}
		}
	}
	t.Fatal("no such event")
	return poll.Event{}
}

// connected returns both ends of a connection that Connect started.
func connected(t testing.TB, address string) (fd int, server net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	fd = testkit.Value(poll.Connect(netip.Addr{}, l.Addr().(*net.TCPAddr).AddrPort()))(t)
	server = testkit.Value(l.Accept())(t)
	t.Cleanup(func() { server.Close() })
	return fd, server
}

func TestBothSidesExchangeData(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		t.Run(address, func(t *testing.T) {
			fd, server := connected(t, address)
			exchangesData(t, fd, server)
		})
	}
	t.Run("unix", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "s")
		l := testkit.Value(net.Listen("unix", path))(t)
		defer l.Close()
		fd := testkit.Value(poll.ConnectUnix(path))(t)
		server := testkit.Value(l.Accept())(t)
		defer server.Close()
		exchangesData(t, fd, server)
	})
}

// exchangesData tests both directions of a new connection, and closes it.
func exchangesData(t *testing.T, fd int, server net.Conn) {
	defer poll.Close(fd)
	p := poller(t)
	testkit.Must(t, p.Add(fd, 7))
	first := next(t, p, func(e poll.Event) bool { return e.Writable })
	testkit.Equal(t, first, poll.Event{ID: 7, Writable: true})
	testkit.Must(t, poll.ConnectError(fd))
	b := make([]byte, 16)
	testkit.FailsWith(poll.Recv(fd, b))(t, poll.ErrAgain, "nothing has come")
	testkit.Equal(t, testkit.Value(poll.Send(fd, []byte("ping")))(t), 4)
	testkit.Value(io.ReadFull(server, b[:4]))(t)
	testkit.Equal(t, string(b[:4]), "ping")
	testkit.Send(t, server, "pong")
	pong := next(t, p, func(e poll.Event) bool { return e.Readable })
	testkit.Equal(t, pong.Ended, false)
	n := testkit.Value(poll.Recv(fd, b))(t)
	testkit.Equal(t, string(b[:n]), "pong")
	server.Close()
	next(t, p, func(e poll.Event) bool { return e.Readable && e.Ended })
	testkit.Equal(t, testkit.Value(poll.Recv(fd, b))(t), 0, "the end")
}

func TestConnectErrorReportsRefusedConnection(t *testing.T) {
	// Another process could be assigned an ephemeral port meanwhile.
	fd, err := poll.Connect(netip.Addr{}, netip.MustParseAddrPort("127.0.0.1:1"))
	if err == nil {
		defer poll.Close(fd)
		p := poller(t)
		testkit.Must(t, p.Add(fd, 1))
		next(t, p, func(e poll.Event) bool { return e.Writable && e.Ended })
		err = poll.ConnectError(fd)
	}
	testkit.Is(t, err, syscall.ECONNREFUSED)
}

func TestFullSocketDoesNotBlock(t *testing.T) {
	fd, _ := connected(t, "127.0.0.1:0")
	defer poll.Close(fd)
	var err error
	piece := make([]byte, 1<<20)
	for range 100 {
		if _, err = poll.Send(fd, piece); err != nil {
			break
		}
	}
	testkit.Is(t, err, poll.ErrAgain, "100 MB into a socket without a reader")
}

func TestWaitReturnsAfterTimeout(t *testing.T) {
	start := time.Now()
	if events, err := poller(t).Wait(30 * time.Millisecond); len(events) != 0 || err != nil ||
		time.Since(start) < 30*time.Millisecond {
		t.Errorf("%v %v after %v", events, err, time.Since(start))
	}
}

// Events that do not fit into one Wait come with the next, each once.
func TestSurplusEventsComeWithNextWait(t *testing.T) {
	const sockets = 300
	p := poller(t)
	for id := range sockets {
		fd, _ := testkit.SocketPair(t)
		t.Cleanup(func() { poll.Close(fd) })
		testkit.Must(t, p.Add(fd, id))
	}
	seen := make(map[int]bool)
	for len(seen) < sockets {
		events, err := p.Wait(0)
		if err != nil || len(events) == 0 {
			t.Fatalf("%v after %d events", err, len(seen))
		}
		for _, e := range events {
			testkit.Equal(t, seen[e.ID], false, e.ID, "is reported twice")
			seen[e.ID] = true
		}
	}
	testkit.Equal(t, len(testkit.Value(p.Wait(0))(t)), 0, "events more")
}

func TestWaitOnClosedPollerFails(t *testing.T) {
	p := testkit.Value(poll.New())(t)
	p.Close()
	testkit.FailsWith(p.Wait(0))(t, syscall.EBADF)
}

// A loop reports events whether it has waited for them or not, and Close ends it.
func TestLoopReportsEvents(t *testing.T) {
	const tag = 1<<32 - 1
	for range 2 {
		loop := testkit.Value(poll.NewLoop())(t)
		fd, peer := testkit.SocketPair(t)
		defer poll.Close(fd)
		testkit.Must(t, loop.Add(fd, 7, tag))
		send := make(chan bool)
		go func() {
			for range send {
				_, _ = io.WriteString(peer, "x")
			}
			loop.Close()
		}()
		var received [1]byte
		for range 300 {
			send <- true
			events, _, err := loop.Wait()
			if err != nil || len(events) != 1 || events[0].ID != 7 || events[0].Tag != tag || !events[0].Readable {
				t.Fatalf("%v, %v", events, err)
			}
			testkit.Equal(t, testkit.Value(poll.Recv(fd, received[:]))(t), 1)
		}
		close(send)
		_, _, err := loop.Wait()
		testkit.Equal(t, err == nil, false, "Wait returned without an error after Close")
	}
}

// Serve reports all input of a descriptor and its end, although it does not check after each event.
// One read for each event leaves the end for the next one, or some of the input.
func TestServeReportsInputAndItsEnd(t *testing.T) {
	loop := testkit.Value(poll.NewLoop())(t)
	const id = 7
	var own atomic.Int32
	received := make(chan int)
	ended := make(chan error)
	go func() {
		var b [3]byte
		ended <- loop.Serve(func(events []poll.Event, _ bool) (hasMore bool) {
			for _, e := range events {
				n, err := poll.Recv(int(own.Load()), b[:])
				if err != nil || e.ID != id {
					t.Errorf("%+v: %v", e, err)
				}
				if n == 0 {
					_ = loop.Remove(int(own.Load()))
				}
				received <- n
				hasMore = hasMore || e.Ended || n == len(b)
			}
			return hasMore
		})
	}()
	for i := range 1000 {
		fd, peer := testkit.SocketPair(t)
		own.Store(int32(fd))
		testkit.Must(t, loop.Watch(fd, id, true, false, false))
		sent, got := 1+i%5, 0
		testkit.Send(t, peer, "abcde"[:sent])
		if i%2 == 0 {
			got += <-received
		}
		peer.Close()
		for n := 1; n > 0; got += n {
			n = <-received
		}
		if got != sent {
			t.Fatalf("%d of %d bytes", got, sent)
		}
		_ = poll.Close(fd)
	}
	_ = loop.Close()
	testkit.Equal(t, <-ended == nil, false, "Serve goes on after Close")
}
