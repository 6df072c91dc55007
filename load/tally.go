package load

import (
	"cmp"
	"time"

	"github.com/tarehq/tare/load/hist"
)

// tally is what one worker counts. Only its worker touches it until the end.
type tally struct {
	counting                           bool // the phase is measuring
	requests, receivedBytes, bodyBytes uint64
	sentBytes, connects, opened        uint64
	statuses                           [1000]uint64 // by status code
	errors                             Errors
	service                            *hist.Histogram // of an open loop
	timedOut                           *hist.Histogram // how long those have waited that were not answered in time
	firstByte, connect, handshake      *hist.Histogram
	waiting                            *hist.Histogram // how long those had, at the end, that were not answered
	due                                float64
	windows                            []uint32
	samples                            []Sample
	head                               string // of the first response
	user, sys                          time.Duration
	fastCGI                            *FastCGI // nil unless that is spoken
}

func newTally() tally {
	return tally{service: hist.New(), timedOut: hist.New(), waiting: hist.New(), firstByte: hist.New(), connect: hist.New(), handshake: hist.New()}
}

// result puts together what the workers counted.
func (r *run) result(took time.Duration) *Result {
	res := &Result{
		URL: r.URL, Connections: r.Connections, Threads: r.Threads, Seconds: took.Seconds(), Statuses: make(map[int]uint64),
		Latency: r.timeline.total, Service: hist.New(), FirstByte: hist.New(), Connect: hist.New(), Handshake: hist.New(),
	}
	if !r.isSession() {
		res.Timeline = r.timeline.finish(took)
	}
	if !r.Pace.open() { // a request is due when it is sent
		res.Service.Merge(r.timeline.total)
	}
	for _, w := range r.workers {
		res.add(&w.tally)
		if w.pacer != nil {
			res.Generator.Lag = cmp.Or(res.Generator.Lag, hist.New())
			res.Generator.Lag.Merge(w.pacer.lag)
		}
	}
	for _, w := range r.workers {
		res.addUnanswered(w.tally.waiting)
	}
	if r.tls == nil {
		res.Handshake = nil
	}
	sortSamples(res.Samples)
	return res
}

// wait counts what was still to be answered at the end. Whatever had waited for longer than nearly
// all took that were answered is as much a part of the distribution as they are: a server that
// stops to answer would look quick otherwise.
func (r *Result) addUnanswered(waiting *hist.Histogram) {
	const usualShare = 0.99
	usual := r.Service.Quantile(usualShare)
	for waited, n := range waiting.All() {
		if waited > usual {
			r.Unanswered += uint64(n)
			r.Latency.RecordN(waited, n)
		}
	}
}

func (r *Result) add(t *tally) {
	r.Requests += t.requests
	r.Bytes += t.receivedBytes
	r.BodyBytes += t.bodyBytes
	r.SentBytes += t.sentBytes
	r.Connects += t.connects
	r.Opened += t.opened
	r.Errors.merge(t.errors)
	r.Latency.Merge(t.timedOut)
	r.Service.Merge(t.service)
	r.FirstByte.Merge(t.firstByte)
	r.Connect.Merge(t.connect)
	r.Handshake.Merge(t.handshake)
	r.Asked += t.due
	for code, n := range t.statuses {
		if n > 0 {
			r.Statuses[code] += n
		}
	}
	r.Head = cmp.Or(r.Head, t.head)
	r.Samples = append(r.Samples, t.samples...)
	r.Windows = append(r.Windows, t.windows)
	if t.fastCGI != nil {
		r.FastCGI = cmp.Or(r.FastCGI, new(FastCGI))
		r.FastCGI.merge(t.fastCGI)
	}
	r.Generator.UserSeconds += t.user.Seconds()
	r.Generator.SysSeconds += t.sys.Seconds()
	if r.Seconds > 0 {
		r.Generator.Busy = max(r.Generator.Busy, (t.user+t.sys).Seconds()/r.Seconds)
	}
}
