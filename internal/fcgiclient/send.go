package fcgiclient

import (
	"time"

	wire "github.com/tarehq/tare/internal/wire/fcgi"
)

const (
	// chunkSize is how much of a body is read and sent at a time.
	chunkSize = 32 << 10
)

// chunk is memory for a piece of a body: records around it, and one byte more, to look for
// the body's end.
type chunk struct {
	b [wire.HeaderSize + chunkSize + 1 + wire.HeaderSize]byte
}

// progress is how far a request has been sent.
type progress uint8

const (
	sending    progress = iota
	sendingEnd          // the last write has begun
	sent
)

// send sends the request. A body that is not part of the message is sent by another
// goroutine, so that the response can come before all of it has gone. An error is returned if
// nothing at all was sent; else the application may have answered.
func (c *call) send() error {
	n, err := c.nc.Write(c.message.bytes)
	if c.options != nil && n > 0 {
		c.options.Sent = true
	}
	switch {
	case err != nil:
		c.stopped(err)
	case c.body == nil:
		c.done()
	default:
		go c.stream()
	}
	if c.unsent = err != nil && n == 0; c.unsent {
		err = c.explain(err)
		c.abandon(err)
		return err
	}
	return nil
}

// stream sends the body.
func (c *call) stream() {
	defer c.body.Close()
	m, _ := c.client.chunks.Get().(*chunk)
	if m == nil {
		m = new(chunk)
	}
	defer func() {
		poison(m.b[:])
		c.client.chunks.Put(m)
	}()
	for total := int64(0); ; {
		n, end, err := c.read(m.b[wire.HeaderSize:len(m.b)-wire.HeaderSize], total)
		if err != nil {
			c.abandon(err)
			return
		}
		total += int64(n)
		b := m.b[:0]
		if n > 0 {
			wire.PutHeader(m.b[:], wire.Header{Type: wire.Stdin, ID: requestID, Length: uint16(n)})
			b = m.b[:wire.HeaderSize+n]
		}
		if end {
			c.last()
			b = wire.AppendStreamEnd(b, wire.Stdin, requestID)
		}
		if _, err := c.nc.Write(b); err != nil {
			c.stopped(err)
			return
		}
		if end {
			c.done()
			return
		}
	}
}

// read reads a piece of the body, as soon as there is one, and reports whether it is the last.
// One byte of p is for looking for the end.
func (c *call) read(p []byte, total int64) (n int, end bool, err error) {
	most := len(p) - 1
	for empty := 0; n == 0 && !end; empty++ {
		if n, end, err = c.body.Piece(p[:most], empty); err != nil {
			return 0, false, err
		}
	}
	if c.length < 0 {
		return n, end, nil
	}
	for empty := 0; !end && total+int64(n) == c.length; empty++ { // there should be no more
		var more int
		if more, end, err = c.body.Piece(p[n:n+1], empty); err != nil {
			return 0, false, err
		}
		n += more
	}
	if got := total + int64(n); got > c.length || end && got < c.length {
		return 0, false, lengthFault(c.length, got)
	}
	return n, end, nil
}

// last tells that the next write is the last.
func (c *call) last() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.progress = sendingEnd
}

// done tells that all has been sent. If the response was quicker, the connection is ours to
// give back.
func (c *call) done() {
	c.mu.Lock()
	c.progress = sent
	c.bound(c.client.ResponseHeaderTimeout)
	left := c.left
	c.mu.Unlock()
	if left {
		if c.nc.SetWriteDeadline(time.Time{}) != nil {
			c.drop()
			return
		}
		c.nc.Keep()
	}
}

// stopped tells that sending has failed. The application may have answered all the same.
func (c *call) stopped(err error) {
	c.mu.Lock()
	c.failed = err
	c.bound(answerTime)
	left := c.left
	c.mu.Unlock()
	if left {
		c.drop()
	}
}
