//go:build linux

package poll_test

import (
	"errors"
	"io"
	"net"
	"net/netip"
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
	if fd, err = poll.Connect(netip.Addr{}, l.Addr().(*net.TCPAddr).AddrPort()); err != nil {
		t.Fatal(err)
	}
	if server, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	return fd, server
}

func TestBothSidesExchangeData(t *testing.T) {
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		t.Run(address, func(t *testing.T) {
			fd, server := connected(t, address)
			defer poll.Close(fd)
			p := poller(t)
			testkit.Must(t, p.Add(fd, 7))
			if e := next(t, p, func(e poll.Event) bool { return e.Writable }); e.ID != 7 || e.Ended || e.Readable {
				t.Errorf("%+v", e)
			}
			testkit.Must(t, poll.ConnectError(fd))
			b := make([]byte, 16)
			if _, err := poll.Recv(fd, b); !errors.Is(err, poll.ErrAgain) {
				t.Errorf("nothing has come: %v", err)
			}
			if n, err := poll.Send(fd, []byte("ping")); n != 4 || err != nil {
				t.Error(n, err)
			}
			if _, err := io.ReadFull(server, b[:4]); string(b[:4]) != "ping" || err != nil {
				t.Errorf("%q %v", b[:4], err)
			}
			io.WriteString(server, "pong")
			if e := next(t, p, func(e poll.Event) bool { return e.Readable }); e.Ended {
				t.Errorf("%+v", e)
			}
			if n, err := poll.Recv(fd, b); string(b[:n]) != "pong" || err != nil {
				t.Errorf("%q %v", b[:n], err)
			}
			server.Close()
			next(t, p, func(e poll.Event) bool { return e.Readable && e.Ended })
			if n, err := poll.Recv(fd, b); n != 0 || err != nil {
				t.Errorf("the end: %d %v", n, err)
			}
		})
	}
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
	if !errors.Is(err, syscall.ECONNREFUSED) {
		t.Error(err)
	}
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
	if !errors.Is(err, poll.ErrAgain) {
		t.Errorf("100 MB into a socket without a reader: %v", err)
	}
}

func TestWaitReturnsAfterTimeout(t *testing.T) {
	start := time.Now()
	if events, err := poller(t).Wait(30 * time.Millisecond); len(events) != 0 || err != nil ||
		time.Since(start) < 30*time.Millisecond {
		t.Errorf("%v %v after %v", events, err, time.Since(start))
	}
}

func TestResetResetsConnection(t *testing.T) {
	fd, server := connected(t, "127.0.0.1:0")
	testkit.Check(t, poll.Reset(fd))
	if _, err := server.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the peer sees %v", err)
	}
}

// Events that do not fit into one Wait come with the next, each once.
func TestSurplusEventsComeWithNextWait(t *testing.T) {
	const sockets = 300
	p := poller(t)
	for id := range sockets {
		pair := testkit.Value(syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0))(t)
		t.Cleanup(func() { poll.Close(pair[0]); poll.Close(pair[1]) })
		testkit.Must(t, p.Add(pair[0], id))
	}
	seen := make(map[int]bool)
	for len(seen) < sockets {
		events, err := p.Wait(0)
		if err != nil || len(events) == 0 {
			t.Fatalf("%v after %d events", err, len(seen))
		}
		for _, e := range events {
			if seen[e.ID] {
				t.Errorf("%d is reported twice", e.ID)
			}
			seen[e.ID] = true
		}
	}
	if events, err := p.Wait(0); len(events) != 0 || err != nil {
		t.Errorf("%d events more, %v", len(events), err)
	}
}

func TestWaitOnClosedPollerFails(t *testing.T) {
	p := testkit.Value(poll.New())(t)
	p.Close()
	if _, err := p.Wait(0); !errors.Is(err, syscall.EBADF) {
		t.Error(err)
	}
}
