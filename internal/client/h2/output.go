package h2

import (
	"crypto/tls"
	"errors"
	"os"
	"time"

	"github.com/tarehq/tare/internal/poison"
)

// output holds what a connection has yet to send. Requests append frames to buf while one goroutine
// writes the earlier ones. So requests that begin during a write share the next one, and no lock is
// held while a goroutine waits for the network.
type output struct {
	buf        []byte    // complete frames
	spare      []byte    // empty
	sending    int       // bytes that are being written
	began      time.Time // the current write
	replies    int       // bytes of buf that reply to the peer's frames
	isFlushing bool
	closeAfter bool  // the connection is closed once everything is sent
	failed     error // why nothing more can be sent
}

const (
	// maxOut is how much output waits before senders wait, and maxPending before the connection
	// accepts no streams.
	maxOut, maxPending = 128 << 10, 512 << 10
	// maxReplies is how many bytes of replies to the peer's frames may wait.
	maxReplies = 64 << 10
	// keptOut is the largest buffer that is used again, and keptIdle by a connection without streams.
	keptOut, keptIdle = 2 * maxOut, 4 << 10
	// maxWrite is how many bytes one write sends at most: each has a deadline, which ends a TLS
	// connection even if a part was sent.
	maxWrite, maxTLSWrite = maxOut, 16 << 10
	// stalledAfter is how long a write may take before requests use another connection.
	stalledAfter = time.Second
	// closeTimeout limits sending what precedes the end of a connection.
	closeTimeout = time.Second
)

// isStalled reports whether the peer accepts bytes so slowly that others should not wait for them.
func (o *output) isStalled() bool { return o.sending > 0 && time.Since(o.began) > stalledAfter }

// pending returns how many bytes wait.
func (o *output) pending() int { return len(o.buf) + o.sending }

// replyLocked sets the output to out, which ends with a reply to a frame of the peer.
func (c *Conn) replyLocked(out []byte) {
	o := &c.output
	o.replies += len(out) - len(o.buf)
	o.buf = out
	c.flushLocked()
}

// flushLocked starts a goroutine that sends the output, unless one runs. A write may wait, and the
// caller may have to return at once.
func (c *Conn) flushLocked() {
	o := &c.output
	if o.isFlushing || o.failed != nil && !o.closeAfter || len(o.buf) == 0 && !o.closeAfter {
		return
	}
	o.isFlushing = true
	go c.send()
}

func (c *Conn) send() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sendLocked(false)
}

// flushHereLocked is flushLocked for a goroutine that may wait. It releases the mutex meanwhile.
func (c *Conn) flushHereLocked() {
	o := &c.output
	if o.isFlushing || o.failed != nil || len(o.buf) == 0 {
		return
	}
	o.isFlushing = true
	c.sendLocked(true)
}

// sendLocked sends all output. The caller has set isFlushing. It releases the mutex while it
// writes. If once is set, it leaves later output to another goroutine: there may always be more.
func (c *Conn) sendLocked(once bool) {
	o := &c.output
	for len(o.buf) > 0 && o.failed == nil {
		b := o.buf
		o.buf, o.spare, o.replies = o.spare[:0], nil, 0
		o.failed = c.writeLocked(b)
		if cap(b) <= keptOut {
			poison.Fill(b)
			o.spare = b[:0]
		}
		c.wakeSendersLocked()
		c.checkRoomLocked()
		if once && len(o.buf) > 0 {
			go c.send()
			return
		}
	}
	if o.isFlushing = false; len(c.streams) == 0 && cap(o.spare) > keptIdle {
		o.spare = nil
	}
	err, isOver := o.failed, o.closeAfter
	if err == nil && !isOver {
		return
	}
	c.mu.Unlock()
	defer c.mu.Lock()
	if isOver {
		_ = c.nc.Close()
		return
	}
	e := &Error{Kind: Closed, Err: err}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		e = &Error{Kind: TimedOut, Err: errors.Join(errNoProgress, err)}
	}
	c.end(e, 0, false)
}

// writeLocked writes b. The peer must accept a byte within the timeout. It releases the mutex while
// it writes.
func (c *Conn) writeLocked(b []byte) error {
	o, most := &c.output, maxWrite
	if _, isTLS := c.nc.(interface{ ConnectionState() tls.ConnectionState }); isTLS {
		most = maxTLSWrite
	}
	for len(b) > 0 {
		o.sending, o.began = len(b), time.Now()
		_ = c.nc.SetWriteDeadline(o.began.Add(c.config.WriteTimeout)) // end may move it
		c.mu.Unlock()
		n, err := c.nc.Write(b[:min(len(b), most)])
		c.mu.Lock()
		b = b[n:]
		if err != nil && (n == 0 || !errors.Is(err, os.ErrDeadlineExceeded)) {
			o.sending = 0
			return err
		}
	}
	o.sending = 0
	return nil
}
