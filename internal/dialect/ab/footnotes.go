package ab

import (
	"fmt"

	"github.com/tarehq/tare/load"
)

// Footnotes say where ab's numbers are not what their names say, in sentences.
func (c *Command) Footnotes(r *load.Result) (notes []string) {
	o := c.count(r)
	say := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	n := len(o.requests)
	if o.stop == nil && n > 0 {
		c.noteTimes(say, r, o)
	}
	if c.keepAlive && o.kept < n {
		say("%d of %d responses kept their connection. To do so with HTTP/1.0 one must say \"Connection: keep-alive\" and its length", o.kept, n)
	}
	if !c.keepAlive && n > 0 {
		say("each request made a connection of its own, for -k is missing: making them is a part of the figures")
	}
	if n > 0 {
		say("requests were HTTP/1.0, as ab's are; a server may answer HTTP/1.1 in another way")
	}
	c.noteFailures(say, r, o)
	return append(notes, r.Doubts()...)
}

func (c *Command) noteTimes(say func(string, ...any), r *load.Result, o *outcome) {
	n := len(o.requests)
	if c.concurrency > 1 {
		say("the first \"Time per request\" is %d connections x %.3f s / %d requests, not a measurement; the requests took %.3f ms on average",
			c.concurrency, o.seconds, n, meanTotal(o.requests))
	}
	without := 0
	for i := range o.requests {
		if o.requests[i].connect == 0 {
			without++
		}
	}
	if c.keepAlive && without > 0 && r.Connect != nil && r.Connect.Count() > 0 {
		say("\"Connect\" is 0 ms for %d of %d requests, whose connection was there; the %d connections took %.3f ms each on average",
			without, n, r.Connect.Count(), r.Connect.Mean().Seconds()*1000)
	}
}

func (c *Command) noteFailures(say func(string, ...any), r *load.Result, o *outcome) {
	if o.stop != nil {
		if o.stop.code != pollTimeout().code && !c.continueOnError {
			say("-r goes on after a socket fails")
		}
		say("of the run until its end: %d responses, %d errors, the first %q", r.Requests, r.Errors.Total(), r.Errors.First)
		return
	}
	if o.length > 0 {
		say("%d requests failed for a body of another length than the first one's, %d bytes; -l accepts any", o.length, o.documentLength)
	}
	if o.non2xx > 0 {
		say("%d responses were not of status 2xx; ab does not count them as failed", o.non2xx)
	}
	if c.limit > 0 && r.Errors.Timeout > 0 {
		say("%d requests were not answered within %v and are in no figure", r.Errors.Timeout, c.timeout)
	}
	if c.limit > 0 && len(o.requests) == c.requests {
		say("the run ended at %d requests, before its time: give -n after -t to have more", c.requests)
	}
}
