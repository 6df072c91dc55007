package client

import (
	"math"

	"github.com/tarehq/tare/internal/wire/http1"
)

const (
	// maxOffset is the largest offset into a head.
	maxOffset = math.MaxInt32
	// maxFields limits the field lines of a response's head.
	maxFields = 1000
	// maxKeptBuffer limits the size of a buffer that is kept for another exchange.
	maxKeptBuffer = 64 << 10
)

// scratch holds the buffers of an exchange: the bytes to send, the received bytes, and the parsed
// head, whose offsets refer to the received bytes.
type scratch struct {
	out  []byte
	in   []byte
	head http1.Response
}

func (c *Client) newScratch() *scratch {
	s, _ := c.scratches.Get().(*scratch)
	if s == nil {
		s = &scratch{in: make([]byte, c.readBufferSize)}
	}
	s.out = s.out[:0]
	return s
}

// release returns the scratch for reuse.
func (x *exchange) release() {
	s := x.scratch
	if s == nil {
		return
	}
	x.scratch = nil
	if cap(s.out) > maxKeptBuffer {
		s.out = nil
	}
	if len(s.in) > max(maxKeptBuffer, x.client.readBufferSize) {
		s.in = make([]byte, x.client.readBufferSize)
	}
	poison(s.out[:cap(s.out)])
	poison(s.in)
	x.client.scratches.Put(s)
}
