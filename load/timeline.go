package load

import (
	"maps"
	"slices"
	"time"

	"github.com/tarehq/tare/load/hist"
)

type workerSecond struct {
	sum     Second
	latency *hist.Histogram
}

// timeline merges the seconds of all workers. Only the coordinator uses it. Packing a histogram
// takes long, so workers hand theirs over and receive an empty one.
type timeline struct {
	workers  int
	trace    func(Second)
	partials map[int]*partialSecond
	complete []Second
	total    *hist.Histogram
}

type partialSecond struct {
	reports int
	sum     Second
	latency *hist.Histogram
}

// maxPackedSeconds limits the seconds whose histograms are kept, and so the size of a long run's
// Result.
const maxPackedSeconds = 3600

func newTimeline(workers int, trace func(Second)) *timeline {
	return &timeline{workers: workers, trace: trace, partials: make(map[int]*partialSecond), total: hist.New()}
}

// add merges a worker's second. The caller may reuse its histogram.
func (s *timeline) add(p *workerSecond) {
	s.total.Merge(p.latency)
	b := s.partials[p.sum.Index]
	if b == nil {
		b = &partialSecond{latency: hist.New()}
		s.partials[p.sum.Index] = b
	}
	b.reports++
	b.sum.add(p.sum)
	b.latency.Merge(p.latency)
	if b.reports == s.workers {
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
	whole := int(elapsed / time.Second)
	if elapsed.Seconds()-float64(whole) > minTail {
		whole++
	}
	whole = max(whole, 1)
	s.foldTail(whole)
	for n := range whole {
		if s.partials[n] != nil {
			s.pack(n)
		}
	}
	return s.complete
}

func (s *timeline) foldTail(n int) {
	var late []int
	for i := range s.partials {
		if i >= n {
			late = append(late, i)
		}
	}
	if len(late) == 0 && len(s.complete) <= n {
		return
	}
	last := s.reopen(n - 1)
	for _, i := range late {
		last.sum.add(s.partials[i].sum)
		last.latency.Merge(s.partials[i].latency)
		delete(s.partials, i)
	}
	for ; len(s.complete) > n; s.complete = s.complete[:len(s.complete)-1] {
		tail := s.complete[len(s.complete)-1]
		last.sum.add(tail)
		if h, err := tail.Latency.Unpack(); err == nil {
			last.latency.Merge(h)
		}
	}
	s.partials[n-1] = last
	s.pack(n - 1)
}

func (s *timeline) reopen(n int) *partialSecond {
	if b := s.partials[n]; b != nil {
		return b
	}
	b := &partialSecond{latency: hist.New()}
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
		for _, m := range []map[int]uint64{s.Statuses, o.Statuses} {
			for code, n := range m {
				sum[code] += n
			}
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
