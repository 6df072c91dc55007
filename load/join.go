package load

import (
	"fmt"
	"math"
	"time"

	"github.com/tarehq/tare/load/hist"
)

// PartResult is what one process of a joined Result measured.
type PartResult struct {
	Name        string  `json:"name"`
	Connections int     `json:"connections"`
	Threads     int     `json:"threads"`
	Seconds     float64 `json:"seconds"`
	Requests    uint64  `json:"requests"`
	Errors      Errors  `json:"errors"`
	// Latency is the part's Result.Latency, without the requests that NoResponse counts.
	Latency   hist.Packed `json:"latency"`
	Generator Generator   `json:"generator"`
	// Began is when the part began to measure, since the first part did. ClockError is the greatest
	// error of this time. Behind is how long after its end a second was reported, at most. The
	// caller of Joiner.Result sets them.
	Began      time.Duration `json:"beganNs"`
	ClockError time.Duration `json:"clockErrorNs"`
	Behind     time.Duration `json:"behindNs"`
	// Lost is why the part ended early, and what its figures cover.
	Lost string `json:"lost,omitempty"`
	// Timeline holds the part's seconds, with figures but without histograms.
	Timeline []Second `json:"timeline"`
}

// Joiner joins what the parts of a Plan measure. Histograms are added, second by second, so that
// the figures are those of a single process. It is not safe for concurrent use.
type Joiner struct {
	url      string
	isOpen   bool
	timeline *timeline
	second   func(Second)
	reported int // seconds that all parts have reported
	parts    []joinedPart
}

type joinedPart struct {
	figures PartResult
	next    int     // seconds reported so far; noMore after the part's end
	result  *Result // the sum of its seconds until End replaces it
}

// noMore is joinedPart.next of a part that reports no more seconds.
const noMore = math.MaxInt

// NewJoiner returns a Joiner for the parts of a Plan. It calls second, which may be nil, for each
// second that all parts have reported.
func NewJoiner(parts []Plan, names []string, second func(Second)) *Joiner {
	j := &Joiner{timeline: newTimeline(math.MaxInt, nil), second: second, parts: make([]joinedPart, len(parts))}
	for i, p := range parts {
		j.url, j.isOpen = p.URL, p.Pace.open()
		j.parts[i] = joinedPart{
			figures: PartResult{Name: names[i], Connections: p.Connections, Threads: p.Threads},
			result:  newSum(),
		}
		j.parts[i].result.Connections, j.parts[i].result.Threads = p.Connections, p.Threads
	}
	return j
}

// newSum returns a Result to which others are added.
func newSum() *Result {
	return &Result{Statuses: make(map[int]uint64), Latency: hist.New(), Service: hist.New(), FirstByte: hist.New(),
		Connect: hist.New()}
}

const maxSecondIndex = 366 * 24 * 3600 // limits the seconds of a part: a year

// Second adds a second of a part, as its Trace.Second received it.
func (j *Joiner) Second(part int, s Second) error {
	own := &j.parts[part]
	if s.Index < 0 || s.Index > maxSecondIndex || own.next == noMore {
		return fmt.Errorf("load: second %d of %s: not one of the run", s.Index, own.figures.Name)
	}
	h, err := s.Latency.Unpack()
	if err != nil {
		return fmt.Errorf("load: second %d of %s: %w", s.Index, own.figures.Name, err)
	}
	own.next = max(own.next, s.Index+1)
	own.addSecond(s, h)
	j.timeline.add(&unpackedSecond{s, h, 1})
	j.advance()
	return nil
}

func (p *joinedPart) addSecond(s Second, h *hist.Histogram) {
	one := Result{Requests: s.Requests, Bytes: s.Bytes, Statuses: s.Statuses, Latency: h}
	if s.Kinds != nil {
		one.Errors = *s.Kinds
	}
	p.result.join(&one)
	for n := len(p.figures.Timeline); n <= s.Index; n++ {
		p.figures.Timeline = append(p.figures.Timeline, Second{Index: n})
	}
	s.Latency.Encoded, s.Statuses = "", nil
	p.figures.Timeline[s.Index] = s
}

func (j *Joiner) advance() {
	least := noMore
	for i := range j.parts {
		least = min(least, j.parts[i].next)
	}
	if least == noMore {
		return // Result completes the last second
	}
	for ; j.reported < least; j.reported++ {
		if j.timeline.partials[j.reported] == nil {
			continue
		}
		if s := j.timeline.pack(j.reported); j.second != nil {
			j.second(s)
		}
	}
}

// End adds the Result of a part. It replaces the sums of the part's seconds. If the part ended
// early, why is the reason; otherwise it is empty.
func (j *Joiner) End(part int, r *Result, why string) {
	own := &j.parts[part]
	own.result, own.next = r, noMore
	if why != "" {
		own.figures.Lost = fmt.Sprintf("%s; the figures cover its first %.1f s", why, r.Seconds)
	}
	j.advance()
}

// Lose ends a part that delivers no Result, with the reason.
func (j *Joiner) Lose(part int, why string) {
	own := &j.parts[part]
	r := own.result
	if own.next != noMore {
		r.Seconds = float64(own.next)
		own.next = noMore
		if j.isOpen {
			r.Due = float64(r.Requests) // how many more were due is unknown
		} else {
			r.Service.Merge(r.Latency)
		}
	}
	own.figures.Lost = fmt.Sprintf("%s; the figures cover its first %.0f s, without the times since sent and to the first byte",
		why, r.Seconds)
	j.advance()
}

// Progress returns what the parts have reported so far.
func (j *Joiner) Progress() (p Progress) {
	for i := range j.parts {
		p.Requests += j.parts[i].result.Requests
		p.Errors.merge(j.parts[i].result.Errors)
	}
	return p
}

// Result joins the parts. Call it once, after the end of each part.
func (j *Joiner) Result() *Result {
	res := newSum()
	res.URL = j.url
	for i := range j.parts {
		f, r := &j.parts[i].figures, j.parts[i].result
		res.join(r)
		f.Seconds, f.Requests, f.Errors, f.Generator = r.Seconds, r.Requests, r.Errors, r.Generator
		f.Latency = packHistogram(r.Latency)
		res.Parts = append(res.Parts, *f)
	}
	res.addMissing()
	res.Timeline = j.timeline.finish(time.Duration(res.Seconds * float64(time.Second)))
	sortSamples(res.Samples)
	return res
}

func (r *Result) join(o *Result) {
	r.Connections += o.Connections
	r.Threads += o.Threads
	r.Seconds = max(r.Seconds, o.Seconds)
	r.Requests += o.Requests
	r.Bytes += o.Bytes
	r.BodyBytes += o.BodyBytes
	r.SentBytes += o.SentBytes
	r.Connects += o.Connects
	r.Opened += o.Opened
	r.Resumed += o.Resumed
	r.Events += o.Events
	r.Due += o.Due
	r.InFlight += o.InFlight
	r.Warmup = max(r.Warmup, o.Warmup)
	r.Errors.merge(o.Errors)
	for code, n := range o.Statuses {
		r.Statuses[code] += n
	}
	for _, h := range []struct {
		into **hist.Histogram
		from *hist.Histogram
	}{
		{&r.Latency, o.Latency}, {&r.Service, o.Service}, {&r.FirstByte, o.FirstByte}, {&r.Connect, o.Connect},
		{&r.Handshake, o.Handshake}, {&r.Generator.Lag, o.Generator.Lag}, {&r.BetweenEvents, o.BetweenEvents},
		{&r.Waiting, o.Waiting},
	} {
		if h.from == nil {
			continue
		}
		if *h.into == nil {
			*h.into = hist.New()
		}
		(*h.into).Merge(h.from)
	}
	r.Generator.UserSeconds += o.Generator.UserSeconds
	r.Generator.SysSeconds += o.Generator.SysSeconds
	r.Generator.Busy = max(r.Generator.Busy, o.Generator.Busy)
	if o.FastCGI != nil {
		if r.FastCGI == nil {
			r.FastCGI = new(FastCGI)
		}
		r.FastCGI.merge(o.FastCGI)
	}
	if r.Head == "" {
		r.Head = o.Head
	}
	r.Samples = append(r.Samples, o.Samples...)
	r.Windows = append(r.Windows, o.Windows...)
}
