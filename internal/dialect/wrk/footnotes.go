package wrk

import (
	"fmt"

	"github.com/tarehq/tare/load"
)

// Footnotes say where figures of the report mislead, and why the run may be doubted.
func (c *Command) Footnotes(r *load.Result) (notes []string) {
	say := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	if c.isV1 {
		c.noteV1(say, r)
	} else {
		c.noteCorrected(say, r)
	}
	if left := c.connections % c.threads; left > 0 {
		say("%d of %d connections were not opened: each of %d threads has %d, as in wrk", left, c.connections, c.threads, c.perThread())
	}
	c.noteTimeouts(say, r)
	if n := r.Errors.Connect; n > 0 {
		say("%d connections were not made: wrk would call these read errors", n)
	}
	if c.threads > 1 && r.Requests > 0 {
		say("Req/Sec is of one thread: multiply by %d", c.threads)
	}
	return append(notes, r.Doubts()...)
}

// noteCorrected gives what was measured, where the report's latency holds phantoms.
func (c *Command) noteCorrected(say func(string, ...any), r *load.Result) {
	d := c.latencies(r)
	all := d.count()
	d.interval = 0
	if measured := d.count(); measured < all {
		at := func(p float64) string { return microseconds(float64(d.percentile(p))) }
		say("%d of %d samples of latency were not measured: wrk adds them for requests that it thinks were held back; without them Avg %s, 50%% %s, 75%% %s, 90%% %s, 99%% %s",
			all-measured, all, microseconds(d.mean()), at(50), at(75), at(90), at(99))
	}
}

// noteOld says how wrk 1.0's figures came about.
func (c *Command) noteV1(say func(string, ...any), r *load.Result) {
	if e := r.Errors; e.Connect+e.Read+e.Write+e.Timeout > 0 && r.Requests < c.total() {
		say("%d requests had no response: wrk 1.0 would have made others instead", c.total()-r.Requests)
	}
	if left := c.requests % c.threads; left > 0 {
		say("%d of %d requests were not made: each of %d threads makes %d, as in wrk 1.0", left, c.requests, c.threads, c.requests/c.threads)
	}
	say("latency is of all requests, where wrk 1.0 takes about one in each tenth of a second; Req/Sec is since the start, cut to thousands, as in wrk 1.0")
}

// noteTimeouts says what became of requests that took too long.
func (c *Command) noteTimeouts(say func(string, ...any), r *load.Result) {
	late := c.countTimeouts(r.Service)
	if late > 0 && !c.isV1 {
		say("%d responses took longer than %s, up to %s: they count as timeouts, and are in no figure of latency",
			late, seconds(c.timeout), microseconds(float64(r.Service.Max().Microseconds())))
	}
	if r.Unanswered > 0 {
		never := c.countTimeouts(r.Latency) - late
		say("%d requests were waiting at the end for longer than 99 in 100 of the others took, %d of them for longer than %s: wrk does not count these",
			r.Unanswered, never, seconds(c.timeout))
	}
}
