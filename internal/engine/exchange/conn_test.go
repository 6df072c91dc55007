package exchange

import (
	"strings"
	"testing"
	"time"
)

// stubCodec is a codec without a protocol. Its size is not 0, so that each has an address.
type stubCodec struct {
	Codec
	resets int
}

func (s *stubCodec) Reset() { s.resets++ }

// A Conn that waits for the rest of a head keeps all that is known of it, in little memory. The one
// that it leaves can serve another connection.
func TestShrunkConnContinuesHead(t *testing.T) {
	const size = 4 << 10
	for _, head := range []string{"", "GET / HT", strings.Repeat("x", size/2)} {
		c := NewConn(&Config{Protocol: Protocol{NewCodec: func() Codec { return new(stubCodec) }}}, size)
		c.Attach(nil, "remote")
		c.Next, c.End = 5, 5+copy(c.In[5:], head)
		codec, began := c.Codec, time.Unix(1, 0)
		c.HasPartial, c.RequestStart, c.Batches = true, began, true
		s := c.Shrink()
		for range 2 { // it may wait again
			if got := string(s.In[s.Next:s.End]); got != head || !s.HasPartial || !s.RequestStart.Equal(began) ||
				!s.Batches || s.Codec != codec || s.Source != codec || s.Sink != codec ||
				s.Template.RemoteAddr != "remote" {
				t.Errorf("the head %.10q became %.10q, partial %v since %v", head, got, s.HasPartial, s.RequestStart)
			}
			if len(s.In) > max(leastPartial, 2*len(head)) {
				t.Errorf("%d bytes are held for %d", len(s.In), len(head))
			}
			s = s.Shrink()
		}
		if !c.Reset() || c.Codec == codec || c.Codec.(*stubCodec).resets != 1 || len(c.In) != size {
			t.Error("the conn that it leaves serves no other connection")
		}
		if s.Reset() {
			t.Error("a small buffer serves another connection")
		}
	}
}
