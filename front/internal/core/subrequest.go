package core

import (
	"net/http"

	"github.com/tarehq/tare/front/internal/message"
)

// Subrequest makes an exchange for another path of the host on behalf of x. It shares the variables
// and limits of x, has a request of its own, and its response is discarded. It skips the access
// phase, so that it makes no further subrequests.
func (x *Exchange) Subrequest(path string) *Exchange {
	if x.Vars == nil && x.Plan.slots > 0 {
		x.Vars = make([]value, x.Plan.slots)
	}
	sub := &Exchange{
		Plan: x.Plan, Parent: x, Request: subrequestOf(x.Request), HostHeader: x.HostHeader,
		ConnUse: x.ConnUse, Method: http.MethodGet, StartTime: x.StartTime,
		Host: x.Host, Loc: &x.Host.defaults, Path: path, internal: true, URIChanged: true, Vars: x.Vars,
	}
	sub.Response = Writer{ResponseWriter: make(discardWriter), X: sub}
	return sub
}

// subrequestOf returns the request of a subrequest: a GET without a body, and without fields about
// the body, the connection or conditions.
func subrequestOf(r *http.Request) *http.Request {
	q := *message.Without(r, "Content-Length", "Expect", "If-Match", "If-Modified-Since", "If-None-Match", "If-Range",
		"If-Unmodified-Since", "Range", "Trailer", "Upgrade")
	q.Method, q.Body, q.ContentLength, q.TransferEncoding, q.Trailer = http.MethodGet, http.NoBody, 0, nil, nil
	return &q
}

// RunSubrequest runs the phases of a subrequest.
func (x *Exchange) RunSubrequest() {
	for out := Relocate; out == Relocate; {
		out = x.runPhases()
	}
	x.complete()
}

// EndSubrequest releases what the subrequest holds. It is also called after a panic, which rejects
// the request.
func (x *Exchange) EndSubrequest() {
	x.Received.Close()
	x.Response.Release()
	if x.Loc.Settings.LogSubrequest {
		x.log()
	}
	x.Parent.RegexTimedOut = x.Parent.RegexTimedOut || x.RegexTimedOut
	if x.LoggedStatus != 0 {
		x.Parent.LoggedStatus = x.LoggedStatus // the client has gone, or the connection is closed
	}
	x.RecycleProxyState()
}

// DiscardsBody reports whether the body of the response is not needed.
func (x *Exchange) DiscardsBody() bool { return x.Parent != nil && x.AddedTo == nil }

// ClientRequest returns the request that the client has sent, also for a subrequest and after
// dropBody.
func (x *Exchange) ClientRequest() *http.Request {
	switch {
	case x.Parent != nil:
		return x.Parent.ClientRequest()
	case x.dropped != nil:
		return x.dropped
	}
	return x.Request
}

// discardWriter is the http.ResponseWriter of subrequests. It keeps the header and discards the
// body.
type discardWriter http.Header

func (u discardWriter) Header() http.Header { return http.Header(u) }

func (discardWriter) WriteHeader(int) {}

func (discardWriter) Write(p []byte) (int, error) { return len(p), nil }
