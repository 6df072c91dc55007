package shard

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/testkit"
)

const lastRequest = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"

// What a client sends after its last request makes the kernel reset the connection. The client has
// the response nevertheless.
func TestLastResponseArrivesBeforeReset(t *testing.T) {
	var c net.Conn
	s := serveOn(t, tcpListener(t), func(w http.ResponseWriter, r *http.Request) {
		if r.Close {
			io.WriteString(c, "unread") // has arrived when WriteString returns
		}
		io.WriteString(w, "last")
	})
	s.reachShards()
	for range 20 {
		c, _ = s.connect()
		if _, err := io.WriteString(c, lastRequest); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		testkit.Must(t, err)
		if b, err := io.ReadAll(resp.Body); string(b) != "last" || err != nil {
			t.Fatalf("%q, %v", b, err)
		}
		if _, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			t.Fatal(err)
		}
	}
}

// A last response that the socket has no room for is sent as the client reads.
func TestLargeLastResponseIsComplete(t *testing.T) {
	body := bytes.Repeat([]byte("x"), 32<<20)
	s := serveOn(t, tcpListener(t), func(w http.ResponseWriter, r *http.Request) {
		if r.Close {
			w.Write(body)
		}
	})
	s.reachShards()
	c, _ := s.connect()
	c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, lastRequest); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	resp, err := http.ReadResponse(in, nil)
	testkit.Must(t, err)
	if n, err := io.Copy(io.Discard, resp.Body); n != int64(len(body)) || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("after the response: %v", err)
	}
}

// placing returns the shards of a new server, a placement on them, and a connected descriptor.
func placing(t *testing.T) (s *testServer, h *placement, fd int) {
	t.Helper()
	s = newTestServer(t, nil, nil, nil)
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	testkit.Must(t, err)
	testkit.Must(t, syscall.Close(pair[1]))
	return s, s.group.nextPlacement(&s.config), pair[0]
}

// Close closes also a connection that is being placed.
func TestCloseClosesConnectionThatIsBeingPlaced(t *testing.T) {
	for i := range 2000 {
		s, place, fd := placing(t)
		g := s.group
		var closing sync.WaitGroup
		begin := make(chan bool)
		closing.Go(func() {
			<-begin
			s.Close()
		})
		close(begin)
		for range i % 200 { // another moment each time
			_ = g.now()
		}
		placeConn(g, place, fd)
		closing.Wait()
		if n := g.Open(); n != 0 {
			t.Fatalf("%d connections are open after Close", n)
		}
	}
}

// A connection that was closed just after it was placed is not added to a loop. Another file may
// have its descriptor.
func TestClosedConnectionIsNotAddedToLoop(t *testing.T) {
	s, place, other := placing(t)
	defer s.Close()
	placeConn(s.group, place, other) // keeps the shards
	const fd = 500                   // which nothing else takes
	testkit.Must(t, syscall.Dup3(other, fd, syscall.O_CLOEXEC))
	k := placeConn(s.group, place, fd)
	testkit.Must(t, k.Close())
	testkit.Must(t, syscall.Dup3(other, fd, syscall.O_CLOEXEC))
	defer syscall.Close(fd)
	k.addOrClose()
	if err := place.shard.loop.Add(fd, fd, 0); err != nil {
		t.Errorf("the loop reports events of another file: %v", err)
	}
}

// A descriptor that the table has no place for is refused.
func TestTableRefusesHighDescriptors(t *testing.T) {
	const fd = tablePages * pageConns
	var table connTable
	k := new(shardConn)
	if table.put(fd, k) {
		t.Error("put accepts it")
	}
	table.remove(fd, k) // by Close
}
