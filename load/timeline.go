package load

import (
	"maps"
	"slices"
	"time"

	"github.com/tarehq/tare/load/hist"
)

// unpackedSecond is a second, or a part of it, whose histogram is not packed yet.
type unpackedSecond struct {
	sum     Second
	latency *hist.Histogram
	reports int // number of workers that it is from
}

func (s *unpackedSecond) merge(o *unpackedSecond) {
	s.sum.add(o.sum)
	s.latency.Merge(o.latency)
	s.reports += o.reports
}

// timeline merges the seconds of all workers. Only the coordinator uses it. Packing a histogram
// takes long, so workers hand theirs over and receive an empty one.
type timeline struct {
	workers  int
	trace    func(Second)
	partials map[int]*unpackedSecond
	complete []Second
	total    *hist.Histogram
}

// maxPackedSeconds limits the seconds whose histograms are kept, and so the size of a long run's
// Result.
const maxPackedSeconds = 3600

func newTimeline(workers int, trace func(Second)) *timeline {
	return &timeline{workers: workers, trace: trace, partials: make(map[int]*unpackedSecond), total: hist.New()}
}

// add merges a worker's second. The caller may reuse its histogram.
func (s *timeline) add(p *unpackedSecond) {
	s.total.Merge(p.latency)
	b := s.open(p.sum.Index)
	if b.merge(p); b.reports == s.workers {
		s.report(s.pack(p.sum.Index))
	}
}

func (s *timeline) report(complete Second) {
	if s.trace != nil {
		s.trace(complete)
	}
}

func (s *timeline) reportRest() {
	for _, n := range slices.Sorted(maps.Keys(s.partials)) {
		sum := s.partials[n].sum
		sum.Index, sum.Latency = n, packHistogram(s.partials[n].latency)
		s.report(sum)
	}
}

// pack moves second n from partials to complete. It returns it with its histogram, even if that is
// not kept.
func (s *timeline) pack(n int) Second {
	b := s.partials[n]
	delete(s.partials, n)
	for len(s.complete) <= n {
		s.complete = append(s.complete, Second{Index: len(s.complete)})
	}
	b.sum.Index, b.sum.Latency = n, packHistogram(b.latency)
	s.complete[n] = b.sum
	if n >= maxPackedSeconds {
		s.complete[n].Latency.Encoded = ""
	}
	return b.sum
}

func packHistogram(h *hist.Histogram) hist.Packed {
	p, err := h.Pack()
	if err != nil {
		panic("load: BUG: pack histogram: " + err.Error())
	}
	return p
}

const minTail = 0.1 // shortest last second, in seconds, that shows a rate

// finish returns the seconds of a run of the given length. A last part longer than minTail becomes
// a second of its own; anything after that is added to the last second.
func (s *timeline) finish(elapsed time.Duration) []Second {
	n := int(elapsed / time.Second)
	if elapsed.Seconds()-float64(n) > minTail {
		n++
	}
	n = max(n, 1)
	end := len(s.complete)
	for i := range s.partials {
		end = max(end, i+1)
	}
	for i := n; i < end; i++ {
		if i < len(s.complete) || s.partials[i] != nil {
			s.open(n - 1).merge(s.open(i))
			delete(s.partials, i)
		}
	}
	s.complete = s.complete[:min(n, len(s.complete))]
	for i := range n {
		if s.partials[i] != nil {
			s.pack(i)
		}
	}
	return s.complete
}

// open returns second n of partials. A complete or new second becomes one of them.
func (s *timeline) open(n int) *unpackedSecond {
	if b := s.partials[n]; b != nil {
		return b
	}
	b := &unpackedSecond{latency: hist.New()}
	s.partials[n] = b
	if n < len(s.complete) {
		b.sum = s.complete[n]
		if h, err := s.complete[n].Latency.Unpack(); err == nil {
			b.latency = h
		}
	}
	return b
}

func (s *Second) add(o Second) {
	s.Requests += o.Requests
	s.Bytes += o.Bytes
	s.Errors += o.Errors
	s.MaxLag = max(s.MaxLag, o.MaxLag)
	if o.Statuses != nil {
		sum := make(map[int]uint64, len(o.Statuses)) // the old one may be in use elsewhere
		maps.Copy(sum, s.Statuses)
		for code, n := range o.Statuses {
			sum[code] += n
		}
		s.Statuses = sum
	}
	if o.Kinds != nil {
		sum := *o.Kinds
		if s.Kinds != nil {
			sum = *s.Kinds
			sum.merge(*o.Kinds)
		}
		s.Kinds = &sum
	}
}
