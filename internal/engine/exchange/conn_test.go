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
		c.next, c.end = 5, 5+copy(c.in[5:], head)
		for range 3 { // it may wait again
			c.Shrink()
			if got := string(c.Input()); got != head {
				t.Errorf("the head %.10q became %.10q", head, got)
			}
			if len(c.in) > max(leastPartial, 2*len(head)) || c.inBuffer != nil {
				t.Errorf("%d bytes are held for %d", len(c.in), len(head))
			}
		}
		c.Reset()
		if c.Attach(nil, "another"); len(c.in) != size || c.next != 0 || c.end != 0 {
			t.Errorf("the next connection has %d bytes of input, %d to %d received", len(c.in), c.next, c.end)
		}
	}
}

func TestFlushGateSendsPendingBytes(t *testing.T) {
	var s FlushGate
	var sent []byte
	s.Send() // the gate is open
	if n := s.Open(); n != 0 {
		t.Error(n)
	}
	s.Close([]byte("answers"), sendSome(func(b []byte) int {
		n := min(3, len(b))
		sent = append(sent, b[:n]...)
		return n
	}))
	s.Send()
	s.Send()
	if n := s.Open(); n != 6 || string(sent) != "answer" {
		t.Errorf("sent %d, %q", n, sent)
	}
	s.Send()
	if n := s.Open(); n != 0 || string(sent) != "answer" {
		t.Errorf("sent %d, %q after it was opened", n, sent)
	}
}

type sendSome func([]byte) int

func (f sendSome) TrySend(b []byte) int { return f(b) }
