package engine

import (
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// A send timeout bounds the time in which the client takes nothing of what is being
// sent. It says nothing about how long a whole response may take. On shards the sock
// counts it while it waits for room (sockconn_linux.go). On the portable path, where
// net.Conn has deadlines only, this file moves the write deadline along.

const (
	// tlsPiece is how much is written under one deadline where an interrupted write
	// cannot be resumed: a client must take so much within the timeout.
	tlsPiece = 16 << 10
	// filePiece is the same for what the kernel copies.
	filePiece = 64 << 10
	// sendSlack is the part of the timeout by which a deadline may be too early.
	// It saves setting one for each write.
	sendSlack = 64
)

// SetSendTimeout bounds the time in which the client takes nothing of what this
// response, or one before it, has to send; 0 is no bound. It fails once the handler has
// returned.
func (w *response) SetSendTimeout(d time.Duration) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable(); err != nil {
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

// setWriteDeadline bounds all writes until it is called again.
func (c *conn) setWriteDeadline(t time.Time) {
	_ = setWriteDeadline(c.link, t) // a connection that cannot will fail to write
}

// setWriteDeadline bounds all writes of a connection until it is called again.
func setWriteDeadline(l link, t time.Time) error {
	if n, ok := l.(*netConn); ok {
		n.setWriteDeadline(t)
		return nil
	}
	return l.raw().SetWriteDeadline(t)
}

// send writes p.
func (c *conn) send(p []byte) error {
	if n, ok := c.link.(*netConn); ok {
		return n.send(p, time.Duration(c.sendTimeout.Load()))
	}
	_, err := c.nc.Write(p)
	return err
}

// sendPieces writes pieces that follow each other, with one system call where it can.
func (c *conn) sendPieces(pieces [][]byte) error {
	if n, ok := c.link.(*netConn); ok {
		return n.sendPieces(pieces, time.Duration(c.sendTimeout.Load()))
	}
	return writePieces(c.nc, pieces)
}

// sendFrom has the connection copy from src.
func (c *conn) sendFrom(direct io.ReaderFrom, src io.Reader) (int64, error) {
	if n, ok := c.link.(*netConn); ok {
		return n.sendFrom(direct, src, time.Duration(c.sendTimeout.Load()))
	}
	return direct.ReadFrom(src)
}

// sendBound is what bounds the writes of a netConn.
type sendBound struct {
	own atomic.Int64 // the deadline of WriteTimeout or of a handler, in Unix nanoseconds; 0 is none
	set atomic.Int64 // the one that the send timeout has set in its stead; 0 if own holds
}

func (c *netConn) setWriteDeadline(t time.Time) {
	own := int64(0)
	if !t.IsZero() {
		own = max(1, t.UnixNano())
	}
	c.sends.own.Store(own)
	c.sends.set.Store(0)
	_ = c.nc.SetWriteDeadline(t)
}

// extend moves the write deadline to a timeout from now, if that is before the own one.
func (c *netConn) extend(timeout time.Duration) {
	s := &c.sends
	for {
		own, set := s.own.Load(), s.set.Load()
		by := time.Now().Add(timeout)
		if timeout == 0 || own != 0 && own < by.UnixNano() {
			if set == 0 {
				return
			}
			by = deadlineOf(own)
			s.set.Store(0)
		} else {
			if set != 0 && by.UnixNano()-set <= int64(timeout/sendSlack) {
				return
			}
			s.set.Store(by.UnixNano())
		}
		_ = c.nc.SetWriteDeadline(by)
		if s.own.Load() == own { // else it was set meanwhile, perhaps to end this write
			return
		}
		s.set.Store(-1)
	}
}

// deadlineOf is the time that sendBound.own stands for.
func deadlineOf(own int64) time.Time {
	if own == 0 {
		return time.Time{}
	}
	return time.Unix(0, own)
}

// resumes reports whether a write that timed out may go on, as the client has taken some of it.
func (c *netConn) resumes(n int64, err error) bool {
	if n == 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		return false
	}
	own := c.sends.own.Load()
	if own != 0 && !time.Now().Before(deadlineOf(own)) {
		return false
	}
	c.sends.set.CompareAndSwap(c.sends.set.Load(), -1) // set it again in any case
	return true
}

func (c *netConn) send(p []byte, timeout time.Duration) error {
	if c.extend(timeout); timeout == 0 {
		_, err := c.nc.Write(p)
		return err
	}
	resumable := writesResume(c.nc)
	for len(p) > 0 {
		part := p
		if !resumable {
			part = p[:min(len(p), tlsPiece)]
		}
		c.extend(timeout)
		n, err := c.nc.Write(part)
		if p = p[n:]; err != nil && (!resumable || !c.resumes(int64(n), err)) {
			return err
		}
	}
	return nil
}

func (c *netConn) sendPieces(pieces [][]byte, timeout time.Duration) error {
	if c.extend(timeout); timeout == 0 {
		return writePieces(c.nc, pieces)
	}
	if !writesResume(c.nc) {
		for _, p := range pieces {
			if err := c.send(p, timeout); err != nil {
				return err
			}
		}
		return nil
	}
	for rest := net.Buffers(pieces); ; c.extend(timeout) {
		n, err := rest.WriteTo(c.nc)
		if err == nil || !c.resumes(n, err) {
			return err
		}
	}
}

// writesResume reports whether a write that was interrupted says how much it has written,
// and can be followed by another.
func writesResume(nc net.Conn) bool {
	switch nc.(type) {
	case *net.TCPConn, *net.UnixConn:
		return true
	}
	return false
}

func (c *netConn) sendFrom(direct io.ReaderFrom, src io.Reader, timeout time.Duration) (n int64, err error) {
	if c.extend(timeout); timeout == 0 {
		return direct.ReadFrom(src)
	}
	whole, from := int64(1<<63-1), src
	limited, _ := src.(*io.LimitedReader)
	if limited != nil { // the kernel copies from one of these over a file, not from two
		whole, from = limited.N, limited.R
	}
	for n < whole {
		c.extend(timeout)
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
