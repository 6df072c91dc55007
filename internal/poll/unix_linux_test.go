package poll_test

import (
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/tarehq/tare/internal/poll"
	"github.com/tarehq/tare/internal/testkit"
)

func TestUnixSocketsConnect(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l := testkit.Value(net.Listen("unix", path))(t)
	defer l.Close()
	fd := testkit.Value(poll.ConnectUnix(path))(t)
	defer poll.Close(fd)
	p := poller(t)
	testkit.Must(t, p.Add(fd, 7))
	if e := next(t, p, func(e poll.Event) bool { return e.Writable }); e.ID != 7 || e.Ended || e.Readable {
		t.Errorf("%+v", e)
	}
	testkit.Must(t, poll.ConnectError(fd))
	server := testkit.Value(l.Accept())(t)
	defer server.Close()
	b := make([]byte, 16)
	if _, err := poll.Recv(fd, b); !errors.Is(err, poll.ErrAgain) {
		t.Errorf("nothing has come: %v", err)
	}
	io.WriteString(server, "pong")
	next(t, p, func(e poll.Event) bool { return e.Readable })
	if n, err := poll.Recv(fd, b); string(b[:n]) != "pong" || err != nil {
		t.Errorf("%q %v", b[:n], err)
	}
	server.Close()
	next(t, p, func(e poll.Event) bool { return e.Readable && e.Ended })
	if n, err := poll.Recv(fd, b); n != 0 || err != nil {
		t.Errorf("the end: %d %v", n, err)
	}
}

func TestConnectUnixReturnsErrAgainIfBacklogIsFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	for name, want := range map[string]error{path: syscall.ENOENT, "/" + strings.Repeat("s", 107): syscall.EINVAL} {
		if fd, err := poll.ConnectUnix(name); fd != -1 || !errors.Is(err, want) {
			t.Errorf("%s: %d, %v", name, fd, err)
		}
	}
	listener := testkit.Value(syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0))(t)
	defer poll.Close(listener)
	testkit.Must(t, syscall.Bind(listener, &syscall.SockaddrUnix{Name: path}))
	if _, err := poll.ConnectUnix(path); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("without a listener: %v", err)
	}
	testkit.Must(t, syscall.Listen(listener, 1))
	for range 10 {
		fd, err := poll.ConnectUnix(path)
		if errors.Is(err, poll.ErrAgain) && fd == -1 {
			return
		}
		testkit.Must(t, err)
		defer poll.Close(fd)
	}
	t.Error("a queue for one connection holds ten")
}
