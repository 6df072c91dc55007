package poll_test

import (
	"bytes"
	"fmt"
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
	testkit.Equal(t, fmt.Sprint(poll.SendEnd(fd, []byte("last"))), "4 true")
	testkit.Equal(t, string(testkit.Value(io.ReadAll(server))(t)), "last")
	testkit.Fails(poll.Send(fd, []byte("more")))(t, "broken pipe")
}

// Input that was not read makes Close reset the connection. The peer has the data nevertheless.
func TestSendEndBeforeResetLosesNothing(t *testing.T) {
	fd, server := connected(t, "127.0.0.1:0")
	testkit.Send(t, server, "unread")
	p := poller(t)
	testkit.Must(t, p.Add(fd, 1))
	next(t, p, func(e poll.Event) bool { return e.Readable })
	testkit.Equal(t, fmt.Sprint(poll.SendEnd(fd, []byte("last"))), "4 true")
	poll.Close(fd)
	b := make([]byte, 4)
	testkit.Value(io.ReadFull(server, b))(t)
	testkit.Equal(t, string(b), "last")
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
	testkit.Value(io.ReadFull(server, got))(t) // also the last ones are sent
	testkit.Equal(t, testkit.Value(poll.Send(fd, data[:1]))(t), 1, "after the peer has read")
}

func TestSendEndOnFailedConnectionSendsNothing(t *testing.T) {
	fd, server := connected(t, "127.0.0.1:0")
	defer poll.Close(fd)
	testkit.Must(t, server.(*net.TCPConn).SetLinger(0))
	server.Close() // resets the connection
	p := poller(t)
	testkit.Must(t, p.Add(fd, 1))
	next(t, p, func(e poll.Event) bool { return e.Ended })
	testkit.FailsWith(poll.Recv(fd, make([]byte, 1)))(t, syscall.ECONNRESET)
	testkit.Equal(t, fmt.Sprint(poll.SendEnd(fd, []byte("last"))), "0 false")
}
