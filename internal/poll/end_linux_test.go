package poll_test

import (
	"bytes"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/tarehq/tare/internal/poll"
	"github.com/tarehq/tare/internal/testkit"
)

func TestSendEndSendsDataAndTheEnd(t *testing.T) {
	fd, server := connected(t, "127.0.0.1:0")
	defer poll.Close(fd)
	if n, ended := poll.SendEnd(fd, []byte("last")); n != 4 || !ended {
		t.Errorf("%d, %v", n, ended)
	}
	if b, err := io.ReadAll(server); string(b) != "last" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := poll.Send(fd, []byte("more")); err == nil {
		t.Error("sent after the end")
	}
}

// Input that was not read makes Close reset the connection. The peer has the data nevertheless.
func TestSendEndBeforeResetLosesNothing(t *testing.T) {
	fd, server := connected(t, "127.0.0.1:0")
	testkit.Send(t, server, "unread")
	p := poller(t)
	testkit.Must(t, p.Add(fd, 1))
	next(t, p, func(e poll.Event) bool { return e.Readable })
	if n, ended := poll.SendEnd(fd, []byte("last")); n != 4 || !ended {
		t.Errorf("%d, %v", n, ended)
	}
	poll.Close(fd)
	b := make([]byte, 4)
	if _, err := io.ReadFull(server, b); string(b) != "last" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}

func TestSendEndWithoutRoomDoesNotEndTheOutput(t *testing.T) {
	fd, server := connected(t, "127.0.0.1:0")
	defer poll.Close(fd)
	data := bytes.Repeat([]byte("x"), 64<<20)
	n, ended := poll.SendEnd(fd, data)
	if n >= len(data) || ended {
		t.Fatalf("%d bytes into a socket without a reader, %v", n, ended)
	}
	got := make([]byte, n)
	if _, err := io.ReadFull(server, got); err != nil { // also the last ones are sent
		t.Fatal(err)
	}
	if m, err := poll.Send(fd, data[:1]); m != 1 || err != nil {
		t.Errorf("after the peer has read: %d, %v", m, err)
	}
}

func TestSendEndOnFailedConnectionSendsNothing(t *testing.T) {
	fd, server := connected(t, "127.0.0.1:0")
	defer poll.Close(fd)
	testkit.Must(t, server.(*net.TCPConn).SetLinger(0))
	server.Close() // resets the connection
	p := poller(t)
	testkit.Must(t, p.Add(fd, 1))
	next(t, p, func(e poll.Event) bool { return e.Ended })
	if _, err := poll.Recv(fd, make([]byte, 1)); err != syscall.ECONNRESET { //nolint:errorlint // a bare errno
		t.Fatal(err)
	}
	if n, ended := poll.SendEnd(fd, []byte("last")); n != 0 || ended {
		t.Errorf("%d, %v", n, ended)
	}
}
