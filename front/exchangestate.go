package front

import (
	"net/http"
	"slices"
	"time"

	"github.com/tarehq/tare/front/internal/hostname"
	"github.com/tarehq/tare/front/internal/uri"
)

// start is called when the host is known.
func (x *exchange) start() {
	if x.plan.needs&needsStartTime != 0 {
		x.startTime = time.Now()
	}
	if x.plan.needs&needsConnection != 0 {
		x.countRequest()
	}
	if x.plan.counts != nil {
		x.plan.counts.requests.Add(1)
		x.plan.counts.inFlight.Add(1)
	}
}

// applyLocation applies x.loc's timeouts. It is called whenever the phases after rewrite may use a
// new x.loc.
func (x *exchange) applyLocation() {
	timeoutSet := x.setServerSendTimeout(x.loc.sendTimeout)
	x.setLinger()
	f := x.loc.filters
	// a client may block even the shortest response
	x.isObserved = x.isObserved || f.observes || f.sendTimeout != 0 && !timeoutSet
}

// serve runs the content phase.
func (x *exchange) serve() outcome {
	var out outcome
	if e := x.plan.options.explain; e != nil {
		out = x.loc.content.explain(x, e)
	} else {
		out = x.loc.content.serve(x)
	}
	x.interceptsErrors = false // it concerns this content only
	return x.sendErrorPage(out)
}

// handlerWriter returns the writer for a bound handler, which may keep it: the server's own, unless
// the response is observed. The exchange can be used again then.
func (x *exchange) handlerWriter() http.ResponseWriter {
	if x.isObserved || x.errorStatus != 0 || len(x.r.Header["Upgrade"]) > 0 { // a hijacked connection is closed
		x.isKept = true
		return &x.w
	}
	x.w.isBypassed = true
	return x.w.ResponseWriter
}

// sendErrorPage fails with the content's status if an error page replaces the content's response.
func (x *exchange) sendErrorPage(out outcome) outcome {
	status := x.w.withheldStatus
	if status == 0 {
		return out
	}
	x.w.withheldStatus = 0
	return x.fail(status)
}

// endWithoutResponse sets the status to log for a request without a response: 444, or 499 if the
// client has gone.
func (x *exchange) endWithoutResponse(status int) outcome {
	x.loggedStatus = status
	return responded
}

// complete ends the response, after all phases.
func (x *exchange) complete() {
	x.w.finish()
	if len(x.limitReleases) > 0 && x.r.ProtoMajor >= 2 && x.loggedStatus == 0 {
		// HTTP/2 and HTTP/3 send the end of a body after the handler returns, and limit_conn counts
		// until then.
		_ = http.NewResponseController(x.w.ResponseWriter).Flush()
	}
	x.isComplete = true
}

// end releases what the exchange holds, counts and logs it. It is also called after a panic.
func (x *exchange) end() {
	x.releaseLimits()
	x.closeProxyState()
	x.w.release()
	if x.plan.counts != nil {
		x.plan.counts.end(x)
	}
	x.log()
	x.recycleProxyState()
	x.recycle()
}

// log is the log phase.
func (x *exchange) log() {
	if x.loc == nil {
		return
	}
	if x.loc.isDebugged {
		x.errorf(levelDebug, "http finalize request: %d, %q", x.responseStatus(), truncateLogged(x.path))
	}
	for _, log := range x.loc.effects.logs {
		log(x)
	}
}

// logSubrequest logs a subrequest, if its location says so.
func (x *exchange) logSubrequest() {
	if x.loc != nil && x.loc.settings.LogSubrequest {
		x.log()
	}
}

func (x *exchange) releaseLimits() {
	for _, leave := range x.limitReleases {
		leave()
	}
	x.limitReleases = nil
}

// responseStatus returns the status of the response, or the one to log if there is none. It is 0
// before there is one, and if the response is not observed.
func (x *exchange) responseStatus() int {
	switch {
	case x.loggedStatus != 0:
		return x.loggedStatus
	case x.errorStatus != 0 && x.w.status == 0:
		return clientStatus(x.errorStatus) // whose page has not begun yet
	}
	return x.w.status
}

// responseBytes returns the length of the response's body.
func (x *exchange) responseBytes() int64 {
	if x.rejected != nil {
		return x.rejected.sent
	}
	return x.w.bodyBytes()
}

// hasErrorPage reports whether an error page replaces the content's response with a status. As in
// nginx that is the built-in page if an error page has led to the content.
func (x *exchange) hasErrorPage(status int) bool {
	for i := range x.loc.errorPages {
		if slices.Contains(x.loc.errorPages[i].statuses, status) {
			return true
		}
	}
	return false
}

// limitResult is the result of a limit for a request.
type limitResult uint8

const (
	limitNone limitResult = iota
	limitPassed
	limitDelayed
	limitRejected
	limitDelayedDry
	limitRejectedDry
)

func (r limitResult) String() string {
	return [...]string{"", "PASSED", "DELAYED", "REJECTED", "DELAYED_DRY_RUN", "REJECTED_DRY_RUN"}[r]
}

// wait waits for a time, or returns false once the client has left.
func (x *exchange) wait(delay time.Duration) bool {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-x.r.Context().Done():
		return false
	}
}

// rejectedRequest is what is logged of a request that the server has rejected.
type rejectedRequest struct {
	line string // as received
	sent int64  // length of the response's body
}

// hasReceived reports whether the request's body was read for an upstream, so that it cannot be
// read from the client.
func (x *exchange) hasReceived() bool { return x.proxy != nil && x.proxy.hasBody() }

// upstreamField returns a field of the last response of an upstream.
func (x *exchange) upstreamField(name string) []string {
	if x.proxy == nil {
		return nil
	}
	return x.proxy.field(name)
}

// closeProxyState releases the body that was read for an upstream.
func (x *exchange) closeProxyState() {
	if x.proxy != nil {
		x.proxy.close()
	}
}

// recycleProxyState makes the proxy's memory of a complete exchange available to others.
func (x *exchange) recycleProxyState() {
	if x.proxy != nil && x.isComplete {
		x.proxy.recycle(x)
	}
}

// logRejected logs a request that no handler has seen.
func logRejected(p *plan, r *http.Request, line string, status int, sent int64) {
	x := newExchange(p, make(discardWriter), r)
	defer x.end()
	x.rejected = &rejectedRequest{line, sent}
	name, _ := hostname.Parse(x.hostHeader)
	x.host = p.hosts.groupOf(r).hostFor(x, name)
	x.loc = &x.host.defaults
	if x.path, _ = uri.RequestPath(r.URL, x.host.keepSlashes); x.path == "" {
		x.args = ""
	}
	x.start()
	x.loggedStatus, x.isComplete = status, true
}
