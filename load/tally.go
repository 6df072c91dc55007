package load

import (
	"cmp"
	"time"

	"github.com/tarehq/tare/load/hist"
)

// tally holds the counters of one worker. Only that worker uses it until it has stopped.
type tally struct {
	counting                           bool // measuring is in progress
	requests, receivedBytes, bodyBytes uint64
	sentBytes, connects, opened        uint64
	resumed                            uint64       // TLS handshakes while counting
	statuses                           [1000]uint64 // by status code
	errors                             Errors
	service                            *hist.Histogram // only in an open loop
	timedOut                           *hist.Histogram // waits of requests that timed out
	firstByte, connect, handshake      *hist.Histogram
	arrived                            int64 // when the input that is parsed arrived, on the worker's clock
	events                             uint64
	betweenEvents                      *hist.Histogram // between two events of a response
	waiting                            *hist.Histogram // waits of requests without a response at the end
	due                                float64
	inFlight                           uint64 // at the end
	windows                            []uint32
	samples                            []Sample
	head                               string // head of the first response
	user, sys                          time.Duration
	fastCGI                            *FastCGI // nil for other protocols
}

func newTally() tally {
	return tally{service: hist.New(), timedOut: hist.New(), waiting: hist.New(), firstByte: hist.New(),
		connect: hist.New(), handshake: hist.New(), betweenEvents: hist.New()}
}

// result merges what the workers counted.
func (r *run) result(elapsed time.Duration) *Result {
	res := &Result{
		URL: r.plan.URL, Connections: r.plan.Connections, Threads: r.plan.Threads, Seconds: elapsed.Seconds(),
		Warmup: r.plan.Warmup.Seconds(), Statuses: make(map[int]uint64),
		Latency: r.timeline.total, Service: hist.New(), FirstByte: hist.New(), Connect: hist.New(),
		Handshake: hist.New(),
	}
	if !r.isSession() {
		r.timeline.reportRest()
		res.Timeline = r.timeline.finish(elapsed)
	}
	if !r.plan.Pace.open() { // in a closed loop a request is due when it is sent
		res.Service.Merge(r.timeline.total)
	}
	for _, w := range r.workers {
		res.add(&w.tally)
		if w.pacer != nil {
			res.Generator.Lag = cmp.Or(res.Generator.Lag, hist.New())
			res.Generator.Lag.Merge(w.pacer.lag)
		}
	}
	waiting := hist.New()
	for _, w := range r.workers {
		waiting.Merge(w.tally.waiting)
	}
	if r.plan.Part.isPart() {
		res.Waiting = waiting
	} else {
		res.addMissing(waiting)
	}
	if r.job.tls == nil {
		res.Handshake = nil
	}
	sortSamples(res.Samples)
	return res
}

// addMissing adds requests without a response at the end to Latency if they had waited longer
// than nearly all others took. Without them, a server that stops responding would look fast.
func (r *Result) addMissing(waiting *hist.Histogram) {
	const usualShare = 0.99
	usual := r.Service.Quantile(usualShare)
	for waited, n := range waiting.All() {
		if waited > usual {
			r.NoResponse += uint64(n)
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
	r.Resumed += t.resumed
	r.Errors.merge(t.errors)
	r.Latency.Merge(t.timedOut)
	r.Service.Merge(t.service)
	r.FirstByte.Merge(t.firstByte)
	r.Connect.Merge(t.connect)
	r.Handshake.Merge(t.handshake)
	if t.events > 0 {
		r.Events += t.events
		r.BetweenEvents = cmp.Or(r.BetweenEvents, hist.New())
		r.BetweenEvents.Merge(t.betweenEvents)
	}
	r.Due += t.due
	r.InFlight += t.inFlight
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
