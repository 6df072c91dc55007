package load

import (
	"time"

	"github.com/tarehq/tare/load/hist"
)

// part is what one worker measured in one second.
type part struct {
	index   int
	sum     Second
	latency *hist.Histogram
}

// seconds puts the parts of all workers together. Only the conductor touches it. Packing takes
// long, so that workers do not do it: they hand over what they have, and get an empty one.
type seconds struct {
	workers int
	trace   func(Second)
	begun   map[int]*partial
	all     []Second
	total   *hist.Histogram
}

// partial is a second of which not all workers have told.
type partial struct {
	told    int
	sum     Second
	latency *hist.Histogram
}

// packedSeconds is how many seconds' histograms are kept: of a longer run they would be too much.
const packedSeconds = 3600

func newSeconds(workers int, trace func(Second)) *seconds {
	return &seconds{workers: workers, trace: trace, begun: make(map[int]*partial), total: hist.New()}
}

// add takes in a part, whose histogram the caller may use again.
func (s *seconds) add(p *part) {
	s.total.Merge(p.latency)
	b := s.begun[p.index]
	if b == nil {
		b = &partial{latency: hist.New()}
		s.begun[p.index] = b
	}
	b.told++
	b.sum.add(p.sum)
	b.latency.Merge(p.latency)
	if b.told == s.workers {
		s.end(p.index)
		if s.trace != nil {
			s.trace(s.all[p.index])
		}
	}
}

// end packs a second.
func (s *seconds) end(n int) {
	b := s.begun[n]
	delete(s.begun, n)
	for len(s.all) <= n {
		s.all = append(s.all, Second{})
	}
	s.all[n] = b.sum
	s.all[n].Latency = pack(b.latency, n < packedSeconds)
}

// pack returns what h holds; only the figures, if not in full.
func pack(h *hist.Histogram, full bool) hist.Packed {
	p, err := h.Pack()
	if err != nil {
		panic("load: BUG: cannot pack a histogram: " + err.Error())
	}
	if !full {
		p.Encoded = ""
	}
	return p
}

// shortTail is a part of a second too short to tell a rate by.
const shortTail = 0.1

// timeline returns the seconds of a run that took so long. What came after its last second is
// added to that. A part of a second counts as one if it is longer than shortTail.
func (s *seconds) timeline(took time.Duration) []Second {
	whole := int(took / time.Second)
	if took.Seconds()-float64(whole) > shortTail {
		whole++
	}
	whole = max(whole, 1)
	s.foldTail(whole)
	for n := range whole {
		if s.begun[n] != nil {
			s.end(n)
		}
	}
	return s.all
}

// foldTail adds what came after the first n seconds to the last of them.
func (s *seconds) foldTail(n int) {
	var late []int
	for i := range s.begun {
		if i >= n {
			late = append(late, i)
		}
	}
	if len(late) == 0 && len(s.all) <= n {
		return
	}
	last := s.reopen(n - 1)
	for _, i := range late {
		last.sum.add(s.begun[i].sum)
		last.latency.Merge(s.begun[i].latency)
		delete(s.begun, i)
	}
	for ; len(s.all) > n; s.all = s.all[:len(s.all)-1] {
		tail := s.all[len(s.all)-1]
		last.sum.add(tail)
		if h, err := tail.Latency.Unpack(); err == nil {
			last.latency.Merge(h)
		}
	}
	s.begun[n-1] = last
	s.end(n - 1)
}

// reopen returns second n as one of which not all have told.
func (s *seconds) reopen(n int) *partial {
	if b := s.begun[n]; b != nil {
		return b
	}
	b := &partial{latency: hist.New()}
	if n < len(s.all) {
		b.sum = s.all[n]
		if h, err := s.all[n].Latency.Unpack(); err == nil {
			b.latency = h
		}
	}
	return b
}

func (s *Second) add(o Second) {
	s.Requests += o.Requests
	s.Bytes += o.Bytes
	s.Errors += o.Errors
}
