package exchange

import "testing"

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
