package load

import (
	"time"

	"github.com/tarehq/tare/load/hist"
)

// tally is the Result of one worker. Its Latency has only the requests that timed out: the others
// are in the seconds. Bytes and Statuses are added at the end of each second. Service is empty in a
// closed loop. Only the worker uses it until it has stopped.
type tally struct {
	Result
	counting bool // measuring is in progress
	windows  []uint32
	arrived  int64 // when the input that is parsed arrived, on the worker's clock
}

func newTally() tally {
	t := tally{Result: *newSum()}
	t.BetweenEvents, t.Waiting = hist.New(), hist.New()
	return t
}

// result completes the Result after a measured time in seconds.
func (t *tally) result(seconds float64) *Result {
	t.Windows = [][]uint32{t.windows}
	if t.Events == 0 {
		t.BetweenEvents = nil
	}
	if seconds > 0 {
		t.Generator.Busy = (t.Generator.UserSeconds + t.Generator.SysSeconds) / seconds
	}
	return &t.Result
}

// result joins what the workers counted.
func (r *run) result(elapsed time.Duration) *Result {
	res := &Result{
		URL: r.plan.URL, Connections: r.plan.Connections, Threads: r.plan.Threads, Seconds: elapsed.Seconds(),
		Warmup: r.plan.Warmup.Seconds(), Statuses: make(map[int]uint64), Latency: r.timeline.total, Service: hist.New(),
	}
	if !r.isSession() {
		r.timeline.reportRest()
		res.Timeline = r.timeline.finish(elapsed)
	}
	if !r.plan.Pace.open() { // in a closed loop a request is due when it is sent
		res.Service.Merge(r.timeline.total)
	}
	for _, w := range r.workers {
		res.join(w.tally.result(res.Seconds))
	}
	if !r.plan.Part.isPart() {
		res.addMissing()
	}
	sortSamples(res.Samples)
	return res
}

// addMissing adds requests without a response at the end to Latency if they had waited longer
// than nearly all others took. Without them, a server that stops responding would look fast.
func (r *Result) addMissing() {
	const usualShare = 0.99
	usual := r.Service.Quantile(usualShare)
	for waited, n := range r.Waiting.All() {
		if waited > usual {
			r.NoResponse += uint64(n)
			r.Latency.RecordN(waited, n)
		}
	}
	r.Waiting = nil
}
