package exchange

import (
	"io"
	"time"

	"github.com/tarehq/tare/internal/poison"
)

// The input of a Conn is in[next:end]: what has been received and not consumed. in is inBuffer,
// unless a head was large or has waited, and nil while the buffer is released.

// Input returns the input.
func (c *Conn) Input() []byte { return c.in[c.next:c.end] }

// Consume removes n bytes from the front of the input. A negative n puts back the last ones.
func (c *Conn) Consume(n int) { c.next += n }

// borrowInput lends c an input buffer.
func (c *Conn) borrowInput() {
	c.inBuffer = c.conns.GetInput()
	c.in = c.inBuffer
}

// releaseInput ends what borrowInput began. All input was consumed, or copied.
func (c *Conn) releaseInput() {
	poison.Fill(c.in)
	if c.inBuffer != nil {
		c.conns.PutInput(c.inBuffer)
	}
	c.inBuffer, c.in, c.next, c.end = nil, nil, 0, 0
}

// HasBegun reports whether a part of a head has arrived.
func (c *Conn) HasBegun() bool { return c.Codec.HasBegun(c.Input()) }

// Room returns the part of the buffer that follows the input, of at least a byte. If there is none,
// it moves the input to the front of the buffer, or into a buffer twice as large.
func (c *Conn) Room() []byte {
	switch {
	case c.in == nil:
		c.borrowInput()
	case c.next == c.end:
		c.next, c.end = 0, 0
	case c.end == len(c.in):
		room := c.in
		if c.next == 0 {
			room = make([]byte, 2*len(c.in))
		}
		c.next, c.end, c.in = 0, copy(room, c.Input()), room
	}
	return c.in[c.end:]
}

// Received appends to the input the first n bytes of what Room has returned.
func (c *Conn) Received(n int) { c.end += n }

// Fill receives more input.
func (c *Conn) Fill() error {
	n, err := c.Connection.Read(c.Room())
	c.Received(n)
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// Trim drops the buffers that a large request or response has grown, if there is no input. A
// connection that waits holds no more memory than one that was never busy.
func (c *Conn) Trim() {
	if c.next == c.end {
		c.in, c.next, c.end = c.inBuffer, 0, 0
	}
	if cap(c.Out) > keptOut {
		c.Out = nil
	}
}

// StartRequest notes when a request begins, if there is a ReadTimeout.
func (c *Conn) StartRequest() {
	if c.RequestStart = (time.Time{}); c.Config.ReadTimeout > 0 {
		c.RequestStart = time.Now()
	}
}
