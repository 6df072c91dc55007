package exchange

import (
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/connection"
)

// stubCodec is a codec without a protocol.
type stubCodec struct{ Codec }

func (stubCodec) Reset() {}

// A Conn that waits for the rest of a head keeps what it has received, in little memory. It can
// serve another connection later.
func TestShrunkConnContinuesHead(t *testing.T) {
	const size = 4 << 10
	for _, head := range []string{"", "GET / HT", strings.Repeat("x", size/2)} {
		p := &Config{Protocol: Protocol{NewCodec: func() Codec { return stubCodec{} }}}
		c := NewConn(p, new(connection.Buffers), size)
		c.Attach(nil, "remote")
		c.Next, c.End = 5, 5+copy(c.In[5:], head)
		for range 3 { // it may wait again
			c.Shrink()
			if got := string(c.In[c.Next:c.End]); got != head {
				t.Errorf("the head %.10q became %.10q", head, got)
			}
			if len(c.In) > max(leastPartial, 2*len(head)) || c.InBuffer != nil {
				t.Errorf("%d bytes are held for %d", len(c.In), len(head))
			}
		}
		c.Reset()
		if c.Attach(nil, "another"); len(c.In) != size || c.Next != 0 || c.End != 0 {
			t.Errorf("the next connection has %d bytes of input, %d to %d received", len(c.In), c.Next, c.End)
		}
	}
}
