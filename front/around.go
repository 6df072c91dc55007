package front

import (
	"net/http"
	"slices"
	"sync/atomic"
	"time"
)

// around is what is kept of an exchange by what is around its content: filters, limits, logs.
type exchangeState struct {
	out           *writer        // x.w, once something needs to see the answer; nil before
	body          *limitedBody   // the request's; nil if it has none
	startTime     time.Time      // if the plan says that somebody asks
	address       *clientAddress // who asked, if somebody wants to know: realip.go
	limitReleases []func()       // give back places in limits

	upstreamURL string // that was asked last, for the error log

	interceptsErrors bool             // answers from 300 on are left to the error pages, if there is one
	isComplete       bool             // the content has returned, and did not panic
	bodyStatus       atomic.Int32     // what answers if the request's body could not be read; 0 while it can. Who passes it on may read it in the background
	loggedStatus     int              // the status to be logged if there is no answer
	rejected         *rejectedRequest // if the server has refused the request; else nil

	requestLimit, connLimit limitResult

	sendTimeout time.Duration // with which the server bounds the response; 0 if it has not been set
}

// begin is called when the host is known.
func (x *exchange) start() {
	if x.plan.needsStartTime {
		x.startTime = time.Now()
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
func (x *exchange) applyLocation() {
	timeoutSet := x.setServerSendTimeout(x.loc.sendTimeout)
	if f := x.loc.filters; f != nil && (!f.onlySendTimeout || !timeoutSet) { // a client may take nothing, not even the shortest page
		x.wrapWriter()
	}
}

// serve has the content answer.
func (x *exchange) serve() outcome {
	if _, isProxy := x.loc.content.(*proxy); !isProxy || x.errorStatus != 0 { // whose page it is the writer says
		x.useFilters()
	}
	out := x.loc.content.serve(x)
	x.interceptsErrors = false // what answers next is none of this content's
	return x.sendErrorPage(out)
}

// filter has the location's filters see the answer, if it has any.
func (x *exchange) useFilters() {
	if x.loc.filters != nil || x.errorStatus != 0 {
		x.wrapWriter()
	}
}

// watch has the answer seen, whatever the location.
func (x *exchange) wrapWriter() {
	if x.out == nil {
		x.out = &writer{ResponseWriter: x.w, x: x}
		x.w = x.out
	}
}

// server is the server's writer, which nothing is put around.
func (x *exchange) serverWriter() http.ResponseWriter {
	if x.out != nil {
		return x.out.ResponseWriter
	}
	return x.w
}

// settle looks whether what the content answered was an error that has a page of its own.
func (x *exchange) sendErrorPage(out outcome) outcome {
	if x.out == nil || x.out.withheldStatus == 0 {
		return out
	}
	status := x.out.withheldStatus
	x.out.withheldStatus = 0
	return x.fail(status)
}

// unanswered notes the status to be logged of a request whose client gets no answer: 444, or 499 if it is gone.
func (x *exchange) endWithoutResponse(status int) outcome {
	x.loggedStatus = status
	return responded
}

// complete ends the answer, when all phases have returned.
func (x *exchange) complete() {
	if x.out != nil {
		x.out.finish()
	}
	if len(x.limitReleases) > 0 && x.r.ProtoMajor == 2 && x.loggedStatus == 0 {
		_ = http.NewResponseController(x.serverWriter()).Flush() // HTTP/2 sends the end of a body behind the handler: limit_conn counts that
	}
	x.isComplete = true
}

// end gives back what the exchange holds, counts and logs it. It is called also if a handler panics.
func (x *exchange) end() {
	x.releaseLimits()
	x.closeProxyState()
	if x.out != nil {
		x.out.release()
	}
	if x.plan.counts != nil {
		x.plan.counts.end(x)
	}
	x.log()
	x.recycleProxyState()
	x.recycle()
}

func (x *exchange) releaseLimits() {
	for _, leave := range x.limitReleases {
		leave()
	}
	x.limitReleases = nil
}

// answerStatus is the status of the answer, or what is logged instead if there is none.
func (x *exchange) responseStatus() int {
	switch {
	case x.loggedStatus != 0:
		return x.loggedStatus
	case x.errorStatus != 0 && (x.out == nil || x.out.status == 0):
		return clientStatus(x.errorStatus) // whose page has not begun yet
	case x.out == nil:
		return 0 // nobody has asked to see it
	case x.out.status != 0:
		return x.out.status
	case x.isComplete:
		return http.StatusOK
	}
	return http.StatusInternalServerError // it panics
}

// answerBytes are those of the answer's body.
func (x *exchange) responseBytes() int64 {
	if x.rejected != nil {
		return x.rejected.sent
	}
	if x.out == nil {
		return 0
	}
	return x.out.bodyBytes()
}

// hasPage reports whether there is a page for an error, in place of what the content says of it.
func (x *exchange) hasErrorPage(status int) bool {
	if x.errorPageUsed {
		return false
	}
	for i := range x.loc.errorPages {
		if slices.Contains(x.loc.errorPages[i].statuses, status) {
			return true
		}
	}
	return false
}
