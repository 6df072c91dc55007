package events

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// crowdAddress is the crowd's own address, by which limits distinguish it from other clients.
	crowdAddress = "127.0.0.2"
	uploadBytes  = 256 << 10 // length that slow uploads announce
	// receiveBuffer is the size of the socket buffer of slow readers. The kernel doubles it.
	receiveBuffer = 4 << 10
	segmentBytes  = 1460            // size of TCP's segments over Ethernet
	joinTimeout   = 5 * time.Second // most that a client waits for its connection
	rejoinAfter   = time.Second     // pause before a client opens another connection
)

type crowd struct {
	Crowd
	address string

	cancel  context.CancelFunc
	members sync.WaitGroup
	open    atomic.Int64
	ended   atomic.Int64 // connections that the server refused or ended
}

func (c *crowd) gather(ctx context.Context) {
	ctx, c.cancel = context.WithCancel(ctx)
	for n := range c.Connections {
		after := time.Duration(c.Over) * time.Duration(n) / time.Duration(c.Connections)
		c.members.Go(func() {
			if pause(ctx, after) {
				c.member(ctx, n)
			}
		})
	}
}

func (c *crowd) leave() {
	if c.cancel != nil {
		c.cancel()
		c.members.Wait()
	}
}

// pause waits and reports whether ctx has not ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// member is the client number n. It connects again whenever the server ends its connection.
func (c *crowd) member(ctx context.Context, n int) {
	for {
		c.connect(ctx, n)
		if ctx.Err() != nil {
			return
		}
		c.ended.Add(1)
		if !c.Again || !pause(ctx, rejoinAfter) {
			return
		}
	}
}

// connect opens a connection, behaves slowly on it and returns when it has ended.
func (c *crowd) connect(ctx context.Context, n int) {
	conn, err := c.dial(ctx)
	if err != nil {
		return
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	defer conn.Close()
	c.open.Add(1)
	defer c.open.Add(-1)
	c.behave(ctx, conn, n)
}

func (c *crowd) dial(ctx context.Context) (net.Conn, error) {
	dialer := net.Dialer{
		Timeout: joinTimeout, LocalAddr: &net.TCPAddr{IP: net.ParseIP(crowdAddress)}, Control: c.prepare,
	}
	return dialer.DialContext(ctx, "tcp", c.address)
}

// prepare lets connect choose the port, and limits what the kernel stores for a connection.
//
// If bind chose the port, no other connection from the crowd's address could have it, to whichever
// server, also not while the kernel remembers it for a minute (TIME_WAIT). The crowd of one case
// then uses up most ports. In the next one bind searches thousands of them for each client, and
// takes milliseconds of CPU time instead of 5 µs: other programs waited for seconds.
//
// Over loopback, segments of 64 KB would give the server's socket a buffer of megabytes, which it
// has on no other network.
func (c *crowd) prepare(_, _ string, raw syscall.RawConn) error {
	var err error
	controlErr := raw.Control(func(fd uintptr) {
		err = errors.Join(
			unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1),
			unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_MAXSEG, segmentBytes))
		if c.Behavior == Reads {
			err = errors.Join(err, unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, receiveBuffer))
		}
	})
	return errors.Join(controlErr, err)
}

// behave sends the beginning of a request, and then writes or reads at times that its start
// determines. After a pause of the whole machine, clients are as far apart as before.
func (c *crowd) behave(ctx context.Context, conn net.Conn, n int) {
	begin := map[string]string{
		Headers: "GET / HTTP/1.1\r\nHost: localhost\r\n",
		Uploads: fmt.Sprintf("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n", uploadBytes) +
			strings.Repeat("x", c.First*n/c.Connections),
		Reads: "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n",
	}[c.Behavior]
	if _, err := io.WriteString(conn, begin); err != nil {
		return
	}
	piece := make([]byte, c.Bytes)
	for i := range piece {
		piece[i] = 'x'
	}
	if c.Behavior == Headers {
		piece = []byte("X-Slow: 1\r\n")
	}
	gone, act := ctx.Done(), conn.Read
	if c.Behavior != Reads {
		// A server that gives up sends a response or closes the connection, which a read shows.
		read := make(chan struct{})
		go func() {
			defer close(read)
			_, _ = conn.Read(make([]byte, 1))
		}()
		gone, act = read, conn.Write
		defer func() {
			conn.Close()
			<-read
		}()
	}
	pace := time.NewTicker(time.Duration(c.Every))
	defer pace.Stop()
	for {
		select {
		case <-gone:
			return
		case <-pace.C:
		}
		if _, err := act(piece); err != nil {
			return
		}
	}
}
