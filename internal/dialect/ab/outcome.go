package ab

import (
	"strings"
	"time"

	"github.com/tarehq/tare/internal/dialect"
	"github.com/tarehq/tare/load"
)

// request is a request that ab counts as complete. Times are in microseconds, as in ab.
type request struct {
	start   time.Duration // since measuring began
	connect int64
	total   int64 // includes connecting
	wait    int64 // from sending to the first byte
}

func (r *request) processing() int64 { return r.total - r.connect }

type outcome struct {
	seconds  float64
	requests []request // in the order in which they ended

	documentLength                       int64
	connect, receive, length, exceptions int // failures; a request may have several
	writes, non2xx, kept                 int
	transferred, html, sent              int64
	stop                                 *dialect.Exit // how ab would have exited early; nil otherwise

	lastDone time.Duration // when the last request completed, since measuring began
}

func (o *outcome) failed() int { return o.connect + o.receive + o.length + o.exceptions }

// count computes ab's counters from the samples. ab considers every response complete, however it
// ended.
func (c *Command) count(r *load.Result) *outcome {
	o := &outcome{seconds: r.Seconds, sent: int64(r.SentBytes)}
	samples := r.Samples[:min(len(r.Samples), c.requests)]
	good, unanswered, refused := false, false, 0
	for i := range samples {
		s := &samples[i]
		o.transferred += s.Bytes
		o.html += s.Body
		why := causeOf(s.Failure, r.Errors.First)
		if why == timeout {
			if o.lastDone <= s.Sent { // no request completed while this one waited
				o.stop = pollTimeout()
				return o
			}
			unanswered = true
			continue
		}
		if (why == reset || why == unconnected) && !c.continueOnError {
			o.stop = socketStop(why, r.Errors.First)
			return o
		}
		o.countFailure(why, &refused)
		o.countResponse(s)
		if !good && why == success {
			good, o.documentLength = true, s.Body
		} else if good && !c.anyLength && (s.Body != o.documentLength || why != success) {
			o.length++
		}
		o.requests = append(o.requests, requestOf(s))
		o.lastDone = s.Done
	}
	if len(o.requests) == c.requests {
		o.seconds = o.lastDone.Seconds()
	}
	if unanswered && c.limit == 0 {
		o.stop = pollTimeout() // without a time limit ab waits for all responses
	}
	// The kernel reports a refused connection to ab twice; every second report is an exception.
	o.exceptions += (refused + 1) / 2
	return o
}

func (o *outcome) countFailure(why cause, refused *int) {
	switch why {
	case reset:
		o.receive++
		o.exceptions++
	case unconnected:
		o.receive++
		*refused++
	case unsent:
		o.writes++
	}
}

func (o *outcome) countResponse(s *load.Sample) {
	if s.Status != 0 && s.Status/100 != 2 {
		o.non2xx++
	}
	if s.Kept && s.Status != 0 {
		o.kept++
	}
}

func requestOf(s *load.Sample) request {
	q := request{start: s.Sent - s.Connect, connect: s.Connect.Microseconds()}
	q.total = (s.Done - s.Sent + s.Connect).Microseconds()
	if s.First > s.Sent {
		q.wait = (s.First - s.Sent).Microseconds()
	}
	return q
}

// server returns the Server field of a response's head, up to the first space, as ab parses it.
func server(head string) string {
	i := strings.Index(strings.ToLower(head), "server:")
	if i < 0 {
		return ""
	}
	const valueAt = len("server: ")
	value := head[min(len(head), i+valueAt):]
	if end := strings.IndexFunc(value, func(r rune) bool { return r <= ' ' }); end >= 0 {
		value = value[:end]
	}
	return value
}
