package wrk

import (
	"fmt"

	"github.com/tarehq/tare/load"
)

// Footnotes returns where the report's figures mislead, and why the run may be unreliable.
func (c *Command) Footnotes(r *load.Result) (notes []string) {
	add := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	if c.isV1 {
		c.noteV1(add, r)
	} else {
		c.noteCorrected(add, r)
	}
	if left := c.connections % c.threads; left > 0 {
		add("%d of %d connections were not opened: each of %d threads has %d, as in wrk", left, c.connections,
			c.threads, c.perThread())
	}
	c.noteTimeouts(add, r)
	if n := r.Errors.Connect; n > 0 {
		add("%d connections could not be opened: wrk would count these as read errors", n)
	}
	if c.threads > 1 && r.Requests > 0 {
		add("Req/Sec is the rate of one thread: multiply it by %d", c.threads)
	}
	return append(notes, r.Doubts()...)
}

// noteCorrected reports the measured latency if the report's latency includes phantoms.
func (c *Command) noteCorrected(add func(string, ...any), r *load.Result) {
	d := c.latencies(r)
	all := d.count()
	d.interval = 0
	if measured := d.count(); measured < all {
		at := func(p float64) string { return microseconds(float64(d.percentile(p))) }
		add("%d of %d latency samples were not measured: wrk adds them for requests that it assumes were delayed; without them Avg %s, 50%% %s, 75%% %s, 90%% %s, 99%% %s",
			all-measured, all, microseconds(d.mean()), at(50), at(75), at(90), at(99))
	}
}

func (c *Command) noteV1(add func(string, ...any), r *load.Result) {
	if r.Errors.WithoutResponse() > 0 && r.Requests < c.total() {
		add("%d requests had no response: wrk 1.0 would have replaced them by others", c.total()-r.Requests)
	}
	if left := c.requests % c.threads; left > 0 {
		add("%d of %d requests were not sent: each of %d threads sends %d, as in wrk 1.0", left, c.requests, c.threads,
			c.requests/c.threads)
	}
	add("latency covers all requests; wrk 1.0 samples about one each tenth of a second; Req/Sec is the rate since the start, rounded down to thousands, as in wrk 1.0")
}

func (c *Command) noteTimeouts(add func(string, ...any), r *load.Result) {
	late := c.countTimeouts(r.Service)
	if late > 0 && !c.isV1 {
		add("%d responses took longer than %s, up to %s: they count as timeouts and are excluded from latency",
			late, seconds(c.timeout), microseconds(float64(r.Service.Max().Microseconds())))
	}
	if r.NoResponse > 0 {
		never := c.countTimeouts(r.Latency) - late
		add("%d requests without a response at the end had waited longer than 99%% of the others took, %d of them longer than %s: wrk does not count these",
			r.NoResponse, never, seconds(c.timeout))
	}
}
