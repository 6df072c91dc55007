package siege

import (
	"fmt"
	"strings"
	"time"

	"github.com/tarehq/tare/load"
)

type say func(format string, args ...any)

// Footnotes say where siege's numbers are not what their names say, and what siege would have
// done that this run did not, in sentences.
func (c *Command) Footnotes(r *load.Result) (notes []string) {
	o := count(r)
	note := say(func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) })
	if o.timed > 0 {
		c.noteTimes(note, r, &o)
	}
	c.noteFailures(note, r, &o)
	c.noteOmissions(note, r)
	return append(notes, r.Doubts()...)
}

func (c *Command) noteTimes(note say, r *load.Result, o *outcome) {
	const resolution = 10 * time.Millisecond // of times(2), which siege asks
	if mean := o.total / time.Duration(max(o.responses(r), 1)); mean < 10*resolution {
		note("siege's times have a resolution of 10 ms; here a transaction took %.3f ms on average, from %.3f to %.3f ms",
			millis(mean), millis(o.shortest), millis(o.longest))
	}
	note("\"Concurrency\" is how many transactions were under way on average, %.2f, not the number of users, %d", o.concurrency(), c.users)
	if !c.keepAlive {
		note("each transaction made a connection of its own, as siege does unless its configuration says \"connection = keep-alive\"")
	}
	if n := o.responses(r); o.timed < n {
		note("the times are those of the first %d of %d transactions", o.timed, n)
	}
	if c.delay >= time.Second {
		note("siege pauses for whole seconds; here pauses were of any time from 0 to %v, with the same mean", c.delay)
	}
}

func millis(d time.Duration) float64 { return d.Seconds() * 1000 }

func (c *Command) noteFailures(note say, r *load.Result, o *outcome) {
	e := &r.Errors
	var bad, neither uint64
	for status, n := range r.Statuses {
		switch {
		case status == teapot:
		case isFailure(status):
			bad += n
		case !isSuccess(status):
			neither += n
		}
	}
	if bad > 0 {
		note("the time of %d failed responses is in \"Response time\", which is divided by the hits only", bad)
	}
	if neither > 0 {
		note("%d responses of status 400 and above are hits, neither successful nor failed, and do not lower \"Availability\"", neither)
	}
	if o.unanswered > 0 {
		note("%d transactions failed without a response (connect %d, read %d, write %d, timeout %d), the first: %s", o.unanswered, e.Connect, e.Read, e.Write, e.Timeout, e.First)
	}
	if o.failed >= maxFailures {
		note("siege would have given up after %d failures", maxFailures)
	}
	if c.requestedUsers > 0 {
		note("of %d users there were %d: siege's limit, unless a file given with -R says \"limit = %d\"", c.requestedUsers, c.users, c.requestedUsers)
	}
}

// noteOmissions looks in the responses for what siege would have acted on.
func (c *Command) noteOmissions(note say, r *load.Result) {
	var redirects uint64
	for _, status := range []int{301, 302, 303, 307} {
		redirects += r.Statuses[status]
	}
	if c.follow && redirects > 0 {
		note("siege would have followed %d redirections; here they are hits and were not followed", redirects)
	}
	isPage := strings.HasPrefix(strings.ToLower(field(r.Head, "Content-Type")), "text/html") && r.Statuses[200] > 0
	if c.parser && isPage {
		note("siege would have requested what the page needs, such as images and scripts, as transactions, too; its --no-parser keeps it from that")
	}
	if field(r.Head, "Set-Cookie") != "" {
		note("siege would have sent the cookie back that the server set")
	}
	if n := r.Statuses[401]; n > 0 {
		note("siege might have answered %d demands for a password", n)
	}
}

// field returns the value of a field of a response's head; empty if there is none.
func field(head, name string) string {
	for line := range strings.Lines(head) {
		n, value, ok := strings.Cut(line, ":")
		if ok && strings.EqualFold(n, name) {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
