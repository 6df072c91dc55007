package siege

import (
	"fmt"
	"strings"
	"time"

	"github.com/tarehq/tare/load"
)

type addNote func(format string, args ...any)

// Footnotes returns sentences about figures that do not mean what their names suggest, and about
// what siege would have done but this run did not.
func (c *Command) Footnotes(r *load.Result) (notes []string) {
	o := count(r)
	note := addNote(func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) })
	if o.timed > 0 {
		c.noteTimes(note, r, &o)
	}
	c.noteFailures(note, r, &o)
	c.noteOmissions(note, r)
	return append(notes, r.Doubts()...)
}

func (c *Command) noteTimes(note addNote, r *load.Result, o *outcome) {
	const resolution = 10 * time.Millisecond // of times(2), which siege uses
	if mean := o.total / time.Duration(max(o.responses(r), 1)); mean < 10*resolution {
		note("siege's times have a resolution of 10 ms; in this run a transaction took %.3f ms on average, from %.3f to %.3f ms",
			millis(mean), millis(o.shortest), millis(o.longest))
	}
	note("\"Concurrency\" is the mean number of concurrent transactions, %.2f, not the number of users, %d",
		o.concurrency(), c.users)
	if !c.keepAlive {
		note("each transaction opened a connection of its own, as siege does unless its configuration sets \"connection = keep-alive\"")
	}
	if n := o.responses(r); o.timed < n {
		note("the times cover the first %d of %d transactions", o.timed, n)
	}
	if c.delay >= time.Second {
		note("siege pauses for whole seconds; in this run pauses lasted any time from 0 to %v, with the same mean",
			c.delay)
	}
}

func millis(d time.Duration) float64 { return d.Seconds() * 1000 }

func (c *Command) noteFailures(note addNote, r *load.Result, o *outcome) {
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
		note("\"Response time\" includes the time of %d failed responses, but is divided by the hits only", bad)
	}
	if neither > 0 {
		note("%d responses with status 400 or above count as hits, neither successful nor failed, and do not lower \"Availability\"", neither)
	}
	if o.unanswered > 0 {
		note("%d transactions failed without a response (connect %d, read %d, write %d, timeout %d), the first: %s",
			o.unanswered, e.Connect, e.Read, e.Write, e.Timeout, e.First)
	}
	if o.failed >= maxFailures {
		note("siege would have exited after %d failures", maxFailures)
	}
	if c.requestedUsers > 0 {
		note("of %d users there were %d: siege's limit, unless a file of -R sets \"limit = %d\"", c.requestedUsers,
			c.users, c.requestedUsers)
	}
}

// noteOmissions reports responses on which siege would have acted.
func (c *Command) noteOmissions(note addNote, r *load.Result) {
	var redirects uint64
	for _, status := range []int{301, 302, 303, 307} {
		redirects += r.Statuses[status]
	}
	if c.follow && redirects > 0 {
		note("siege would have followed %d redirections; this run counts them as hits", redirects)
	}
	isPage := strings.HasPrefix(strings.ToLower(field(r.Head, "Content-Type")), "text/html") && r.Statuses[200] > 0
	if c.parser && isPage {
		note("siege would also have requested the page's images, scripts and so on as transactions, unless --no-parser is set")
	}
	if field(r.Head, "Set-Cookie") != "" {
		note("siege would have sent back the server's cookies")
	}
	if n := r.Statuses[401]; n > 0 {
		note("siege might have sent credentials after %d responses with status 401", n)
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
