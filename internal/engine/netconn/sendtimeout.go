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
// one costs more than reading the clock. Of the two for writes, the earlier one is in effect.
type timedConn struct {
	NetConn net.Conn

	mu     sync.Mutex
	read   time.Time
	fixed  time.Time // set by WriteTimeout or a handler; zero for none
	moving time.Time // set by the send timeout; zero if fixed is in effect
}

func (c *timedConn) SetReadDeadline(t time.Time) error { return c.extendReadDeadline(t, 0) }

// extendReadDeadline is SetReadDeadline, except that a deadline that is too early by no more than
// slack is kept.
func (c *timedConn) extendReadDeadline(t time.Time, slack time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if early := t.Sub(c.read); !c.read.IsZero() && early >= 0 && early <= slack {
		return nil
	}
	c.read = t
	return c.NetConn.SetReadDeadline(t)
}

func (c *timedConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fixed, c.moving = t, time.Time{}
	_ = c.NetConn.SetWriteDeadline(t)
	return nil
}

// extendDeadline moves the write deadline to timeout from now, unless the fixed one is earlier.
func (c *timedConn) extendDeadline(timeout time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if timeout == 0 && c.moving.IsZero() {
		return // before reading the clock, which is a twentieth of a request in memory
	}
	by := time.Now().Add(timeout)
	switch {
	case timeout > 0 && (c.fixed.IsZero() || !c.fixed.Before(by)):
		if by.Sub(c.moving) <= timeout/sendSlack {
			return
		}
		c.moving = by
	case c.moving.IsZero():
		return
	default:
		by, c.moving = c.fixed, time.Time{}
	}
	_ = c.NetConn.SetWriteDeadline(by)
}

// canResume reports whether a write that timed out may continue, because the client has accepted n
// bytes of it. If the fixed deadline has passed, the next write accepts none, and fails.
func (c *timedConn) canResume(n int64, err error) bool {
	if n == 0 || !c.resumes() || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.moving = exchange.PastTime() // so that the next write sets a deadline again
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

func (c *timedConn) Send(p []byte, timeout time.Duration) error {
	_, err := c.send(p, timeout)
	return err
}

// send is Send. If a write cannot be resumed, it sends parts, of which the client must accept each
// within the timeout.
func (c *timedConn) send(p []byte, timeout time.Duration) (sent int, err error) {
	most := len(p)
	if timeout > 0 && !c.resumes() {
		most = tlsPiece
	}
	for sent < len(p) {
		c.extendDeadline(timeout)
		n, err := c.NetConn.Write(p[sent:min(len(p), sent+most)])
		if sent += n; err != nil && !c.canResume(int64(n), err) {
			return sent, err
		}
	}
	return sent, nil
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
