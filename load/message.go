package load

import (
	"math/rand/v2"
)

// message is one of the Plan's requests, rendered where possible.
type message struct {
	index  int32 // in Plan.List
	isHead bool  // a HEAD request, whose response has no body

	text, final []byte        // rendered; final is the variant for the last request of a connection
	fill        *templateFill // renders a template anew for each request; nil for a fixed request
}

func newMessage(j *job, number int) message {
	q := j.requests[number]
	m := message{index: int32(number), isHead: q.method == "HEAD"}
	if len(q.expressions) > 0 {
		m.fill = newFill(q)
	} else {
		m.text = j.protocol.render(nil, q, j.address, false)
		m.final = j.protocol.render(nil, q, j.address, true)
	}
	return m
}

func (m *message) fixed() bool { return m.fill == nil }

func (m *message) bytes(last bool) []byte {
	if last {
		return m.final
	}
	return m.text
}

func (m *message) appendTo(dst []byte, w *worker, last bool) []byte {
	if m.fixed() {
		return append(dst, m.bytes(last)...)
	}
	return w.job.protocol.render(dst, m.fill.next(&w.values), w.job.address, last)
}

func (w *worker) nextMessage() *message {
	if len(w.messages) == 1 {
		return &w.messages[0]
	}
	if w.plan.Shuffle {
		return &w.messages[rand.IntN(len(w.messages))]
	}
	m := &w.messages[w.nextIndex]
	w.nextIndex = (w.nextIndex + 1) % len(w.messages)
	return m
}
