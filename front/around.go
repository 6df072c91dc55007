package front

import (
	"net/http"
	"slices"
	"sync/atomic"
	"time"
)

// around is what is kept of an exchange by what is around its content: filters, limits, logs.
type around struct {
	out    *writer      // x.w, once something needs to see the answer; nil before
	body   *boundedBody // the request's; nil if it has none
	began  time.Time    // if the plan says that somebody asks
	remote *remote      // who asked, if somebody wants to know: realip.go
	held   []func()     // give back places in limits

	upstream string // that was asked last, for the error log

	intercept  bool         // answers from 300 on are left to the error pages, if there is one
	done       bool         // the content has returned, and did not panic
	bodyStatus atomic.Int32 // what answers if the request's body could not be read; 0 while it can. Who passes it on may read it in the background
	note       int          // the status to be logged if there is no answer
	refused    *refused     // if the server has refused the request; else nil

	requestLimit, connLimit limitResult

	sendTimeout time.Duration // with which the server bounds the response; 0 if it has not been set
}

// begin is called when the host is known.
func (x *exchange) begin() {
	if x.plan.timed {
		x.began = time.Now()
	}
	if x.plan.countsRequests {
		x.countRequest()
	}
	if x.plan.counts != nil {
		x.plan.counts.requests.Add(1)
		x.plan.counts.inFlight.Add(1)
	}
}

// enter has x.loc's filters, limits and logs see the answer. It is called whenever x.loc has been set.
func (x *exchange) enter() {
	bounded := x.boundSends(x.loc.sendTimeout)
	if f := x.loc.filters; f != nil && (!f.onlyTime || !bounded) { // a client may take nothing, not even the shortest page
		x.watch()
	}
}

// serve has the content answer.
func (x *exchange) serve() outcome {
	if _, sees := x.loc.content.(*pass); !sees || x.status != 0 { // whose page it is the writer says
		x.filter()
	}
	out := x.loc.content.serve(x)
	x.intercept = false // what answers next is none of this content's
	return x.settle(out)
}

// filter has the location's filters see the answer, if it has any.
func (x *exchange) filter() {
	if x.loc.filters != nil || x.status != 0 {
		x.watch()
	}
}

// watch has the answer seen, whatever the location.
func (x *exchange) watch() {
	if x.out == nil {
		x.out = &writer{ResponseWriter: x.w, x: x}
		x.w = x.out
	}
}

// server is the server's writer, which nothing is put around.
func (x *exchange) server() http.ResponseWriter {
	if x.out != nil {
		return x.out.ResponseWriter
	}
	return x.w
}

// settle looks whether what the content answered was an error that has a page of its own.
func (x *exchange) settle(out outcome) outcome {
	if x.out == nil || x.out.withheld == 0 {
		return out
	}
	status := x.out.withheld
	x.out.withheld = 0
	return x.fail(status)
}

// unanswered notes the status to be logged of a request whose client gets no answer: 444, or 499 if it is gone.
func (x *exchange) unanswered(status int) outcome {
	x.note = status
	return answered
}

// complete ends the answer, when all phases have returned.
func (x *exchange) complete() {
	if x.out != nil {
		x.out.finish()
	}
	if len(x.held) > 0 && x.r.ProtoMajor == 2 && x.note == 0 {
		_ = http.NewResponseController(x.server()).Flush() // HTTP/2 sends the end of a body behind the handler: limit_conn counts that
	}
	x.done = true
}

// end gives back what the exchange holds, counts and logs it. It is called also if a handler panics.
func (x *exchange) end() {
	x.leaveLimits()
	x.endPassing()
	if x.out != nil {
		x.out.abandon()
	}
	if x.plan.counts != nil {
		x.plan.counts.end(x)
	}
	x.log()
	x.forgetPassing()
	x.giveBack()
}

func (x *exchange) leaveLimits() {
	for _, leave := range x.held {
		leave()
	}
	x.held = nil
}

// answerStatus is the status of the answer, or what is logged instead if there is none.
func (x *exchange) answerStatus() int {
	switch {
	case x.note != 0:
		return x.note
	case x.status != 0 && (x.out == nil || x.out.status == 0):
		return shown(x.status) // whose page has not begun yet
	case x.out == nil:
		return 0 // nobody has asked to see it
	case x.out.status != 0:
		return x.out.status
	case x.done:
		return http.StatusOK
	}
	return http.StatusInternalServerError // it panics
}

// answerBytes are those of the answer's body.
func (x *exchange) answerBytes() int64 {
	if x.refused != nil {
		return x.refused.sent
	}
	if x.out == nil {
		return 0
	}
	return x.out.bodyBytes()
}

// hasPage reports whether there is a page for an error, in place of what the content says of it.
func (x *exchange) hasPage(status int) bool {
	if x.errored {
		return false
	}
	for i := range x.loc.errorPages {
		if slices.Contains(x.loc.errorPages[i].statuses, status) {
			return true
		}
	}
	return false
}
