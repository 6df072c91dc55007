package client

import (
	"math"

	"github.com/tarehq/tare/internal/poison"
)

const (
	// maxOffset is the largest offset into a head.
	maxOffset = math.MaxInt32
	// maxFields limits the field lines of a response's head, and of its trailer section.
	maxFields = 1000
	// maxKeptBuffer limits the size of a buffer that is kept for another exchange.
	maxKeptBuffer = 64 << 10
)

// scratch holds the buffers of an exchange: the bytes to send, the received bytes, and the
// protocol's state, which may refer to the received bytes.
type scratch struct {
	out    []byte
	in     []byte // nil if it was released
	parsed int    // in[parsed:filled] is received and not parsed
	filled int
	codec  codec
	call   *Call   // nil unless a proxy sends the request
	memory *Memory // receives the response's head as it is; nil if the response gets a Header
}

// received returns the bytes that are received and not parsed.
func (s *scratch) received() []byte { return s.in[s.parsed:s.filled] }

// takeInto moves received bytes to p, and returns their number.
func (s *scratch) takeInto(p []byte) int {
	n := copy(p, s.received())
	s.parsed += n
	return n
}

func (c *Client) newScratch() *scratch {
	s, _ := c.scratches.Get().(*scratch)
	if s == nil {
		s = &scratch{codec: c.protocol.newCodec()}
	}
	if s.in == nil {
		c.borrowInput(s)
	}
	s.out, s.parsed, s.filled = s.out[:0], 0, 0
	return s
}

// borrowInput lends the scratch an input buffer. It has none.
func (c *Client) borrowInput(s *scratch) {
	s.in, s.parsed, s.filled = c.inputs.Get(c.readBufferSize), 0, 0
}

// releaseInput takes back the buffer of borrowInput, unless it has grown. All input was consumed.
func (c *Client) releaseInput(s *scratch) {
	if len(s.in) == c.readBufferSize {
		c.inputs.Put(s.in)
	}
	s.in, s.parsed, s.filled = nil, 0, 0
}

// release returns the scratch for reuse.
func (x *exchange) release() {
	s := x.scratch
	if s == nil {
		return
	}
	x.scratch, s.call, s.memory = nil, nil, nil
	s.out = keptOrNil(s.out)
	if len(s.in) > max(maxKeptBuffer, x.client.readBufferSize) {
		s.in = nil
	}
	s.codec.reset()
	poison.Fill(s.in)
	x.client.scratches.Put(s)
}

// keptOrNil returns b for reuse, unless it is too large to be kept.
func keptOrNil(b []byte) []byte {
	if cap(b) > maxKeptBuffer {
		return nil
	}
	poison.Fill(b[:cap(b)])
	return b[:0]
}
