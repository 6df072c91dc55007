package load

import (
	"math/rand/v2"
)

// message is one of a plan's requests, made ready.
type message struct {
	index  int32 // in the plan's List
	isHead bool  // its response has no body

	text, final []byte        // as it is sent; final, as the last on its connection
	fill        *templateFill // what is different each time; nil if nothing is
}

func newMessage(j *job, q *request, number int, f *templateFill) message {
	m := message{index: int32(number), isHead: q.method == "HEAD", fill: f}
	if f == nil {
		m.text = j.protocol.render(nil, q, j.address, false)
		m.final = j.protocol.render(nil, q, j.address, true)
	}
	return m
}

// fixed reports whether all that is sent is known before.
func (m *message) fixed() bool { return m.fill == nil }

// bytes returns a fixed message.
func (m *message) bytes(last bool) []byte {
	if last {
		return m.final
	}
	return m.text
}

// appendTo appends the message to what is to be sent.
func (m *message) appendTo(dst []byte, w *worker, last bool) []byte {
	if m.fixed() {
		return append(dst, m.bytes(last)...)
	}
	return w.protocol.render(dst, m.fill.next(&w.values), w.address, last)
}

// pick returns the message that is next.
func (w *worker) nextMessage() *message {
	if len(w.messages) == 1 {
		return &w.messages[0]
	}
	if w.Shuffle {
		return &w.messages[rand.IntN(len(w.messages))]
	}
	m := &w.messages[w.nextIndex]
	w.nextIndex = (w.nextIndex + 1) % len(w.messages)
	return m
}
