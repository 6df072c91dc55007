package exchange

import (
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/connection"
)

// noCodec is a codec without a protocol.
type noCodec struct{ Codec }

// A Conn that waits for the rest of a head keeps all that is known of it, in little memory.
func TestShrunkConnContinuesHead(t *testing.T) {
	const size = 4 << 10
	for _, head := range []string{"", "GET / HT", strings.Repeat("x", size/2)} {
		p := &Config{Protocol: Protocol{NewCodec: func() Codec { return noCodec{} }}}
		c := NewConn(p, new(connection.Buffers), size)
		c.Attach(nil, "remote")
		c.Next, c.End = 5, 5+copy(c.In[5:], head)
		began := time.Unix(1, 0)
		c.HasPartial, c.RequestStart = true, began
		for range 2 { // it may wait again
			c.Shrink()
			if got := string(c.In[c.Next:c.End]); got != head || !c.HasPartial || !c.RequestStart.Equal(began) {
				t.Errorf("the head %.10q became %.10q, partial %v since %v", head, got, c.HasPartial, c.RequestStart)
			}
			if len(c.In) > max(leastPartial, 2*len(head)) {
				t.Errorf("%d bytes are held for %d", len(c.In), len(head))
			}
		}
	}
}
