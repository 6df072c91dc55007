package engine

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"
)

// pair returns both ends of a connection: a descriptor, and the client.
func pair(t *testing.T) (fd int, client *net.UnixConn) {
	t.Helper()
	ends, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	return ends[0], connOf(t, ends[1])
}

// Shutdown serves a connection that was accepted just before it. It returns only when no more
// connections can arrive.
func TestShutdownServesConnectionThatIsBeingPlaced(t *testing.T) {
	s := New(&http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "x")
	})})
	g, err := s.ensureGroup()
	if err != nil {
		t.Fatal(err)
	}
	place := g.nextPlacement(s.newServeConfig(nil, nil))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if !s.trackListener(l) { // a Serve accepts
		t.Fatal("closed")
	}
	done := make(chan error, 1)
	go func() { done <- s.Shutdown(t.Context()) }()
	for !s.Closed() {
		time.Sleep(time.Millisecond)
	}
	fd, client := pair(t)
	k := g.place(place, fd, "")
	if k == nil {
		t.Fatal("the connection was closed")
	}
	k.addOrClose()
	s.untrackListener(l)
	io.WriteString(client, "GET / HTTP/1.1\r\nHost: host\r\n\r\n")
	resp, err := http.ReadResponse(bufio.NewReader(client), nil)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(resp.Body); string(b) != "x" || err != nil || !resp.Close {
		t.Errorf("got %q, %v, close %v", b, err, resp.Close)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A connection on which a request has arrived that was not read is not idle.
func TestUnreadRequestIsNotIdle(t *testing.T) {
	s := New(&http.Server{})
	g, err := s.ensureGroup()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	fd, client := pair(t)
	k := g.place(g.nextPlacement(s.newServeConfig(nil, nil)), fd, "") // no loop reports it
	k.isNew.Store(false)
	io.WriteString(client, "G")
	if k.claimForClosing() {
		t.Error("Shutdown closes a connection with an unread request")
	}
	if _, err := syscall.Read(fd, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	k.hasPartialHead.Store(true)
	if k.claimForClosing() {
		t.Error("Shutdown closes a connection with a part of a head")
	}
	k.hasPartialHead.Store(false)
	if !k.claimForClosing() {
		t.Error("Shutdown does not close an idle connection")
	}
}

// The same holds for connections of the goroutine path.
func TestUnreadInputIsSeen(t *testing.T) {
	fd, client := pair(t)
	server := connOf(t, fd)
	for name, nc := range map[string]net.Conn{"socket": server, "tls": tls.Server(server, &tls.Config{})} {
		if !isQuiet(nc) {
			t.Errorf("%s: input before the client has sent any", name)
		}
	}
	io.WriteString(client, "G")
	for name, nc := range map[string]net.Conn{"socket": server, "tls": tls.Server(server, &tls.Config{})} {
		if isQuiet(nc) {
			t.Errorf("%s: no input", name)
		}
	}
	if !isQuiet(struct{ net.Conn }{server}) {
		t.Error("input of a connection that is not a socket")
	}
	server.Close()
	if !isQuiet(server) {
		t.Error("input of a closed connection")
	}
}

// connOf returns the connection of a descriptor.
func connOf(t *testing.T, fd int) *net.UnixConn {
	t.Helper()
	file := os.NewFile(uintptr(fd), "socket")
	defer file.Close()
	nc, err := net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nc.Close() })
	return nc.(*net.UnixConn)
}
