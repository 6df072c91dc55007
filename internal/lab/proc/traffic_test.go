package proc

import (
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// allowed skips a test if the kernel does not let this process count. It fails the test where
// counting must work: for root in continuous integration, except in a container without the right.
func allowed(t *testing.T, err error) {
	t.Helper()
	if os.Geteuid() != 0 || errors.Is(err, os.ErrPermission) {
		t.Skipf("counting in the kernel is not allowed here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// exchange opens connections, and sends and receives several times on each.
func exchange(t *testing.T, l net.Listener, connections, times int, request, response []byte) {
	t.Helper()
	served := make(chan error, connections)
	go func() {
		for range connections {
			c, err := l.Accept()
			if err != nil {
				served <- err
				return
			}
			go func() {
				defer c.Close()
				got := make([]byte, len(request))
				for range times {
					if _, err := io.ReadFull(c, got); err != nil {
						served <- err
						return
					}
					if _, err := c.Write(response); err != nil {
						served <- err
						return
					}
				}
				served <- nil
			}()
		}
	}()
	for range connections {
		c, err := net.Dial(l.Addr().Network(), l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(response))
		for range times {
			if _, err := c.Write(request); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(c, got); err != nil {
				t.Fatal(err)
			}
		}
		c.Close()
		if err := <-served; err != nil {
			t.Fatal(err)
		}
	}
}

const (
	connections, times = 3, 50
	toServer           = connections * times * 100
	fromServer         = connections * times * 7
)

// All bytes and connections of a port are counted, and none of other ports.
func TestSegmentsCountOnlyTheirPorts(t *testing.T) {
	var ports []int
	var listeners []net.Listener
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		listeners, ports = append(listeners, l), append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	s, err := CountSegments(ports[:2]...)
	allowed(t, err)
	defer s.Close()
	exchange(t, listeners[0], connections, times, make([]byte, 100), make([]byte, 7))
	exchange(t, listeners[2], connections, times, make([]byte, 100), make([]byte, 7))
	got, err := s.Of(ports[0])
	if err != nil {
		t.Fatal(err)
	}
	if got.Opened != connections || got.To.Bytes != toServer || got.From.Bytes != fromServer {
		t.Errorf("%+v, want %d opened, %d bytes to the server and %d from it", got, connections, toServer, fromServer)
	}
	// In each direction: at least the segments with bytes, and at most an acknowledgment for each.
	for _, f := range []Flow{got.To, got.From} {
		if f.Segments < connections*times || f.Segments > connections*(2*times+8) {
			t.Errorf("%d segments for %d writes each way", f.Segments, connections*times)
		}
	}
	if idle, err := s.Of(ports[1]); err != nil || idle != (Traffic{}) {
		t.Errorf("an unused port: %+v, %v", idle, err)
	}
	if _, err := s.Of(ports[2]); err == nil {
		t.Error("another port is counted")
	}
	if since := got.Minus(got); since != (Traffic{}) {
		t.Errorf("since now: %+v", since)
	}
}

// Bytes on unix sockets are counted, and those on TCP are not.
func TestUnixBytesCountOnlyUnixSockets(t *testing.T) {
	u, err := CountUnixBytes()
	if errors.Is(err, os.ErrNotExist) {
		t.Skip(err) // before Linux 6.3
	}
	allowed(t, err)
	defer u.Close()
	before, err := u.Of(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []struct{ network, address string }{
		{"unix", filepath.Join(t.TempDir(), "s")}, {"tcp", "127.0.0.1:0"},
	} {
		l, err := net.Listen(at.network, at.address)
		if err != nil {
			t.Fatal(err)
		}
		exchange(t, l, connections, times, make([]byte, 100), make([]byte, 7))
		l.Close()
	}
	after, err := u.Of(os.Getpid(), 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	// This process has both ends.
	want := Flow{Segments: 2 * connections * times, Bytes: toServer + fromServer}
	if got := after.Minus(before); got.To != want || got.From.Bytes != want.Bytes || got.Opened != 0 {
		t.Errorf("%+v, want %+v each way", got, want)
	}
}
