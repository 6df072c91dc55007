package engine

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// A send timeout limits how long the client may accept none of the bytes that are being sent. It
// does not limit the time for a whole response. On shards the shardConn measures it while it waits
// for room in the socket (shardconnio_linux.go). On the goroutine path net.Conn has only deadlines,
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

// SetSendTimeout limits how long the client may accept none of the bytes of this response, or of an
// earlier one that still waits. 0 is no limit. It fails once the handler has returned.
func (w *response) SetSendTimeout(d time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.checkUsable(); err != nil {
		return err
	}
	w.conn.setSendTimeout(max(0, d))
	return nil
}

func (c *conn) setSendTimeout(d time.Duration) {
	if c.sendTimeout.Load() != int64(d) {
		c.sendTimeout.Store(int64(d))
	}
}

// setWriteDeadline sets the deadline of all writes until the next call.
func (c *conn) setWriteDeadline(t time.Time) {
	_ = setWriteDeadline(c.transport, t) // if this fails, the next write fails, too
}

// setWriteDeadline sets the deadline of all writes of a connection until the next call.
func setWriteDeadline(l transport, t time.Time) error {
	if n, ok := l.(*netConn); ok {
		n.setWriteDeadline(t)
		return nil
	}
	return l.raw().SetWriteDeadline(t)
}

// send writes p.
func (c *conn) send(p []byte) error {
	if n, ok := c.transport.(*netConn); ok {
		return n.send(p, time.Duration(c.sendTimeout.Load()))
	}
	_, err := c.nc.Write(p)
	return err
}

// sendPieces writes pieces in order, with one system call where possible.
func (c *conn) sendPieces(pieces [][]byte) error {
	if n, ok := c.transport.(*netConn); ok {
		return n.sendPieces(pieces, time.Duration(c.sendTimeout.Load()))
	}
	return writePieces(c.nc, pieces)
}

// sendFrom makes the connection copy from src.
func (c *conn) sendFrom(direct io.ReaderFrom, src io.Reader) (int64, error) {
	if n, ok := c.transport.(*netConn); ok {
		return n.sendFrom(direct, src, time.Duration(c.sendTimeout.Load()))
	}
	return direct.ReadFrom(src)
}

// sendDeadlines are the two deadlines for the writes of a netConn. The earlier one is in effect.
type sendDeadlines struct {
	fixed atomic.Int64 // set by WriteTimeout or a handler, in Unix nanoseconds; 0 for none
	// set by the send timeout, in Unix nanoseconds; 0 if fixed is in effect, -1 if unknown
	moving atomic.Int64
}

func (c *netConn) setWriteDeadline(t time.Time) {
	fixed := int64(0)
	if !t.IsZero() {
		fixed = max(1, t.UnixNano())
	}
	c.sendDeadlines.fixed.Store(fixed)
	c.sendDeadlines.moving.Store(0)
	_ = c.nc.SetWriteDeadline(t)
}

// extendDeadline moves the write deadline to timeout from now, unless the fixed one is earlier.
func (c *netConn) extendDeadline(timeout time.Duration) {
	s := &c.sendDeadlines
	for {
		fixed, moving := s.fixed.Load(), s.moving.Load()
		by := time.Now().Add(timeout)
		if timeout == 0 || fixed != 0 && fixed < by.UnixNano() {
			if moving == 0 {
				return
			}
			by = deadlineOf(fixed)
			s.moving.Store(0)
		} else {
			if moving != 0 && by.UnixNano()-moving <= int64(timeout/sendSlack) {
				return
			}
			s.moving.Store(by.UnixNano())
		}
		_ = c.nc.SetWriteDeadline(by)
		if s.fixed.Load() == fixed { // otherwise it was set meanwhile, perhaps to end this write
			return
		}
		s.moving.Store(-1)
	}
}

// deadlineOf returns the time for a value of sendDeadlines.fixed.
func deadlineOf(own int64) time.Time {
	if own == 0 {
		return time.Time{}
	}
	return time.Unix(0, own)
}

// canResume reports whether a write that timed out may continue, because the client has accepted n
// bytes of it.
func (c *netConn) canResume(n int64, err error) bool {
	if n == 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	fixed := c.sendDeadlines.fixed.Load()
	if fixed != 0 && !time.Now().Before(deadlineOf(fixed)) {
		return false
	}
	// so that the next write sets it again
	c.sendDeadlines.moving.CompareAndSwap(c.sendDeadlines.moving.Load(), -1)
	return true
}

func (c *netConn) send(p []byte, timeout time.Duration) error {
	if c.extendDeadline(timeout); timeout == 0 {
		_, err := c.nc.Write(p)
		return err
	}
	resumable := canResumeWrites(c.nc)
	for len(p) > 0 {
		part := p
		if !resumable {
			part = p[:min(len(p), tlsPiece)]
		}
		c.extendDeadline(timeout)
		n, err := c.nc.Write(part)
		if p = p[n:]; err != nil && (!resumable || !c.canResume(int64(n), err)) {
			return err
		}
	}
	return nil
}

func (c *netConn) sendPieces(pieces [][]byte, timeout time.Duration) error {
	if c.extendDeadline(timeout); timeout == 0 {
		return writePieces(c.nc, pieces)
	}
	if !canResumeWrites(c.nc) {
		for _, p := range pieces {
			if err := c.send(p, timeout); err != nil {
				return err
			}
		}
		return nil
	}
	for rest := net.Buffers(pieces); ; c.extendDeadline(timeout) {
		n, err := rest.WriteTo(c.nc)
		if err == nil || !c.canResume(n, err) {
			return err
		}
	}
}

// canResumeWrites reports whether a write that was interrupted returns how much it has written, and
// can be followed by another.
func canResumeWrites(nc net.Conn) bool {
	switch nc.(type) {
	case *net.TCPConn, *net.UnixConn:
		return true
	}
	return false
}

func (c *netConn) sendFrom(direct io.ReaderFrom, src io.Reader, timeout time.Duration) (n int64, err error) {
	if c.extendDeadline(timeout); timeout == 0 {
		return direct.ReadFrom(src)
	}
	whole, from := int64(1<<63-1), src
	limited, _ := src.(*io.LimitedReader)
	// the kernel copies from an io.LimitedReader over a file, not from a nested one
	if limited != nil {
		whole, from = limited.N, limited.R
	}
	for n < whole {
		c.extendDeadline(timeout)
		most := min(whole-n, filePiece)
		m, err := direct.ReadFrom(&io.LimitedReader{R: from, N: most})
		n += m
		if limited != nil {
			limited.N -= m
		}
		if err != nil || m < most {
			return n, err
		}
	}
	return n, nil
}
