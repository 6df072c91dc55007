package ab

import (
	"fmt"

	"github.com/tarehq/tare/load"
)

// Footnotes returns sentences about figures that do not mean what their names suggest.
func (c *Command) Footnotes(r *load.Result) (notes []string) {
	o := c.count(r)
	say := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	n := len(o.requests)
	if o.stop == nil && n > 0 {
		c.noteTimes(say, r, o)
	}
	if c.keepAlive && o.kept < n {
		say("%d of %d responses kept their connection alive. With HTTP/1.0 that requires \"Connection: keep-alive\" and Content-Length", o.kept, n)
	}
	if !c.keepAlive && n > 0 {
		say("each request opened a connection of its own, because -k is missing: the figures include opening it")
	}
	if n > 0 {
		say("requests were HTTP/1.0, as ab's are; servers may respond differently to HTTP/1.1")
	}
	c.noteFailures(say, r, o)
	return append(notes, r.Doubts()...)
}

func (c *Command) noteTimes(say func(string, ...any), r *load.Result, o *outcome) {
	n := len(o.requests)
	if c.concurrency > 1 {
		say("the first \"Time per request\" is %d connections x %.3f s / %d requests, not a measurement; requests took %.3f ms on average",
			c.concurrency, o.seconds, n, meanTotal(o.requests))
	}
	without := 0
	for i := range o.requests {
		if o.requests[i].connect == 0 {
			without++
		}
	}
	if c.keepAlive && without > 0 && r.Connect != nil && r.Connect.Count() > 0 {
		say("\"Connect\" is 0 ms for %d of %d requests, whose connection was open already; opening the %d connections took %.3f ms each on average",
			without, n, r.Connect.Count(), r.Connect.Mean().Seconds()*1000)
	}
}

func (c *Command) noteFailures(say func(string, ...any), r *load.Result, o *outcome) {
	if o.stop != nil {
		if o.stop.code != pollTimeout().code && !c.continueOnError {
			say("with -r, ab continues after socket errors")
		}
		say("the run until then had %d responses and %d errors, the first %q", r.Requests, r.Errors.Total(),
			r.Errors.First)
		return
	}
	if o.length > 0 {
		say("%d requests failed because their body's length differs from the first one's, %d bytes; -l accepts any length", o.length, o.documentLength)
	}
	if o.non2xx > 0 {
		say("%d responses had a status other than 2xx; ab does not count them as failed", o.non2xx)
	}
	if c.limit > 0 && r.Errors.Timeout > 0 {
		say("%d requests had no response within %v and are in no figure", r.Errors.Timeout, c.timeout)
	}
	if c.limit > 0 && len(o.requests) == c.requests {
		say("the run ended early, after %d requests: set -n after -t to allow more", c.requests)
	}
}
