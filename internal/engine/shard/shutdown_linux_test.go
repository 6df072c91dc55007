package shard

import (
	"bufio"
	"io"
	"net/http"
	"syscall"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// A connection that is placed while the server shuts down is served: it was accepted before. The
// shards stop only when no connection can arrive any more.
func TestShutdownServesConnectionThatIsBeingPlaced(t *testing.T) {
	s := newTestServer(t, nil, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "x") }, nil)
	s.state.Accepting.Store(1)
	s.state.Closing.Store(true)
	if n := s.group.CloseIdle(); n != 0 || s.group.isStopped() {
		t.Fatalf("%d connections, stopped %v", n, s.group.isStopped())
	}
	fd, client := testkit.SocketPair(t)
	k := placeConn(s.group, s.group.nextPlacement(&s.config), fd)
	if k == nil {
		t.Fatal("the connection was closed")
	}
	k.addOrClose()
	s.state.Accepting.Store(0)
	io.WriteString(client, "GET / HTTP/1.1\r\nHost: host\r\n\r\n")
	in := bufio.NewReader(client)
	resp, err := http.ReadResponse(in, nil)
	testkit.Must(t, err)
	if b, err := io.ReadAll(resp.Body); string(b) != "x" || err != nil || !resp.Close {
		t.Errorf("got %q, %v, close %v", b, err, resp.Close)
	}
	if _, err := in.ReadByte(); err != io.EOF {
		t.Errorf("got %v, want EOF", err)
	}
	<-s.group.stopped
}

// If descriptors run out, a connection on which a request waits is not closed.
func TestUnreadRequestIsNotShed(t *testing.T) {
	s := newTestServer(t, nil, nil, nil)
	defer s.Close()
	fd, client := testkit.SocketPair(t)
	k := placeConn(s.group, s.group.nextPlacement(&s.config), fd) // no loop reports it
	io.WriteString(client, "G")
	if s.group.shedIdle(); !k.state.is(stateWaiting) {
		t.Fatal("the connection was closed")
	}
	if _, err := syscall.Read(fd, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if s.group.shedIdle(); !k.state.is(stateClosed) {
		t.Error("an idle connection was not closed")
	}
}

// A connection on which a request has arrived that was not read is not idle.
func TestUnreadRequestIsNotIdle(t *testing.T) {
	s := newTestServer(t, nil, nil, nil)
	defer s.Close()
	fd, client := testkit.SocketPair(t)
	k := placeConn(s.group, s.group.nextPlacement(&s.config), fd) // no loop reports it
	k.state.set(flagNew, false)
	io.WriteString(client, "G")
	if k.claimForClosing() {
		t.Error("Shutdown closes a connection with an unread request")
	}
	if _, err := syscall.Read(fd, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	k.state.set(flagHead, true)
	if k.claimForClosing() {
		t.Error("Shutdown closes a connection with a part of a head")
	}
	k.state.set(flagHead, false)
	if !k.claimForClosing() {
		t.Error("Shutdown does not close an idle connection")
	}
	_ = k.Close()
}
