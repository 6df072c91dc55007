package ab

import (
	"fmt"

	"github.com/tarehq/tare/load"
)

// Footnotes returns sentences about figures that do not mean what their names suggest.
func (c *Command) Footnotes(r *load.Result) (notes []string) {
	o := c.count(r)
	add := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	n := len(o.requests)
	if o.stop == nil && n > 0 {
		c.noteTimes(add, r, o)
	}
	if c.keepAlive && o.kept < n {
		add("%d of %d responses kept their connection alive. With HTTP/1.0 that requires \"Connection: keep-alive\" and Content-Length", o.kept, n)
	}
	if !c.keepAlive && n > 0 {
		add("each request opened a connection of its own, because -k is missing: the figures include opening it")
	}
	if n > 0 {
		add("requests were HTTP/1.0, as ab's are; servers may respond differently to HTTP/1.1")
	}
	c.noteFailures(add, r, o)
	return append(notes, r.Doubts()...)
}

func (c *Command) noteTimes(add func(string, ...any), r *load.Result, o *outcome) {
	n := len(o.requests)
	if c.concurrency > 1 {
		add("the first \"Time per request\" is %d connections x %.3f s / %d requests, not a measurement; requests took %.3f ms on average",
			c.concurrency, o.seconds, n, meanTotal(o.requests))
	}
	without := 0
	for i := range o.requests {
		if o.requests[i].connect == 0 {
			without++
		}
	}
	if c.keepAlive && without > 0 && r.Connect != nil && r.Connect.Count() > 0 {
		add("\"Connect\" is 0 ms for %d of %d requests, whose connection was open already; opening the %d connections took %.3f ms each on average",
			without, n, r.Connect.Count(), r.Connect.Mean().Seconds()*1000)
	}
}

func (c *Command) noteFailures(add func(string, ...any), r *load.Result, o *outcome) {
	if o.stop != nil {
		if o.stop.Code != pollTimeout().Code && !c.continueOnError {
			add("with -r, ab continues after socket errors")
		}
		add("the run until then had %d responses and %d errors, the first %q", r.Requests, r.Errors.Total(),
			r.Errors.First)
		return
	}
	if o.length > 0 {
		add("%d requests failed because their body's length differs from the first one's, %d bytes; -l accepts any length", o.length, o.documentLength)
	}
	if r.Errors.Read > 0 {
		add("%d responses were malformed or incomplete; ab counts them as complete and checks only their length",
			r.Errors.Read)
	}
	if o.non2xx > 0 {
		add("%d responses had a status other than 2xx; ab does not count them as failed", o.non2xx)
	}
	if c.limit > 0 && r.Errors.Timeout > 0 {
		add("%d requests had no response within %v and are in no figure", r.Errors.Timeout, c.timeout)
	}
	if c.limit > 0 && len(o.requests) == c.requests {
		add("the run ended early, after %d requests: set -n after -t to allow more", c.requests)
	}
}
