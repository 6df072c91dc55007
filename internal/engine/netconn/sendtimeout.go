package netconn

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
)

// A send timeout limits how long the client may accept none of the bytes that are being sent. It
// does not limit the time for a whole response. On shards the shardConn measures it while it waits
// for room in the socket (package shard). On the goroutine path net.Conn has only deadlines,
// so that this file moves the write deadline along.

const (
	// tlsPiece is how much is written under one deadline if an interrupted write cannot be
	// resumed. The client must accept as much within the timeout.
	tlsPiece = 16 << 10
	// filePiece is the same for data that the kernel copies.
	filePiece = 64 << 10
	// sendSlack is the fraction of the timeout by which a deadline may be early. It saves
	// setting a deadline for each write.
	sendSlack = 64
)

// timedConn is a net.Conn with send timeouts. It knows the deadlines that it has set last: setting
// one costs more than reading the clock.
type timedConn struct {
	NetConn net.Conn

	mu          sync.Mutex
	read, write time.Time // set last
	fixed       time.Time // for writes, by WriteTimeout or a handler; zero for none
	isWatched   bool      // read deadlines have no effect
}

func (c *timedConn) SetReadDeadline(t time.Time) error { return c.extendReadDeadline(t, 0) }

// extendReadDeadline is SetReadDeadline, except that a deadline that is too early by no more than
// slack is kept.
func (c *timedConn) extendReadDeadline(t time.Time, slack time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if early := t.Sub(c.read); c.isWatched || !c.read.IsZero() && early >= 0 && early <= slack {
		return nil
	}
	c.read = t
	return c.NetConn.SetReadDeadline(t)
}

// ignoreReadDeadlines removes the read deadline, and ignores others until it is called again. They
// limit reading a request, which is complete while the connection is watched.
func (c *timedConn) ignoreReadDeadlines(ignore bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isWatched, c.read = ignore, time.Time{}
	_ = c.NetConn.SetReadDeadline(time.Time{})
}

func (c *timedConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fixed, c.write = t, t
	_ = c.NetConn.SetWriteDeadline(t)
	return nil
}

// extendDeadline moves the write deadline to timeout from now, unless the fixed one is earlier.
func (c *timedConn) extendDeadline(timeout time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	to := c.fixed
	if timeout > 0 { // else without reading the clock, which is a twentieth of a request in memory
		if moving := time.Now().Add(timeout); to.IsZero() || moving.Before(to) {
			to = moving
		}
	}
	if early := to.Sub(c.write); early < 0 || early > timeout/sendSlack {
		c.write = to
		_ = c.NetConn.SetWriteDeadline(to)
	}
}

// canResume reports whether a write that timed out may continue, because the client has accepted n
// bytes of it. If the fixed deadline has passed, the next write accepts none, and fails.
func (c *timedConn) canResume(n int64, err error) bool {
	if n == 0 || !c.resumes() || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.write = exchange.PastTime() // so that the next write sets a deadline again
	return true
}

// resumes reports whether a write that was interrupted returns how much it has written, and can be
// followed by another.
func (c *timedConn) resumes() bool {
	switch c.NetConn.(type) {
	case *net.TCPConn, *net.UnixConn:
		return true
	}
	return false
}

// Send implements exchange.Connection. If a write cannot be resumed, it sends parts, of which the
// client must accept each within the timeout.
func (c *timedConn) Send(p []byte, timeout time.Duration) error {
	most := len(p)
	if timeout > 0 && !c.resumes() {
		most = tlsPiece
	}
	for len(p) > 0 {
		c.extendDeadline(timeout)
		n, err := c.NetConn.Write(p[:min(len(p), most)])
		if p = p[n:]; err != nil && !c.canResume(int64(n), err) {
			return err
		}
	}
	return nil
}

func (c *timedConn) SendPieces(pieces [][]byte, timeout time.Duration) error {
	if timeout > 0 && !c.resumes() {
		for _, p := range pieces {
			if err := c.Send(p, timeout); err != nil {
				return err
			}
		}
		return nil
	}
	for rest := net.Buffers(pieces); ; {
		c.extendDeadline(timeout)
		n, err := rest.WriteTo(c.NetConn)
		if err == nil || !c.canResume(n, err) {
			return err
		}
	}
}

func (c *timedConn) CanSendFrom() bool {
	_, ok := c.NetConn.(io.ReaderFrom)
	return ok
}

func (c *timedConn) SendFrom(src *io.LimitedReader, timeout time.Duration) (n int64, err error) {
	direct := c.NetConn.(io.ReaderFrom)
	if c.extendDeadline(timeout); timeout == 0 {
		return direct.ReadFrom(src)
	}
	for src.N > 0 {
		c.extendDeadline(timeout)
		most := min(src.N, filePiece)
		m, err := direct.ReadFrom(&io.LimitedReader{R: src.R, N: most})
		n += m
		src.N -= m
		if err != nil || m < most {
			return n, err
		}
	}
	return n, nil
}
