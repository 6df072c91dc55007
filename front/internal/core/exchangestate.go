package core

import (
	"cmp"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/hostname"
	"github.com/tarehq/tare/front/internal/nginxstatus"
	"github.com/tarehq/tare/front/internal/uri"
	"github.com/tarehq/tare/internal/connection"
)

// start is called when the host is known.
func (x *Exchange) start() {
	if x.Plan.Needs&NeedsStartTime != 0 {
		x.StartTime = time.Now()
	}
	if x.Plan.Needs&needsConnection != 0 {
		if info := connection.Of(x.Request.Context()); info != nil {
			x.ConnUse = connUse{info, info.CountRequest()}
		}
	}
	if x.Plan.Needs&NeedsCounts != 0 {
		x.Plan.State.Counts.Requests.Add(1)
		x.Plan.State.Counts.InFlight.Add(1)
	}
}

// LeaveLocation makes the host's defaults those of the exchange, as before a location was found.
func (x *Exchange) LeaveLocation() { x.Loc = &x.Host.defaults }

// serve runs the content phase.
func (x *Exchange) serve() Outcome {
	var out Outcome
	if e := x.Plan.Options.Explain; e != nil {
		out = x.Loc.Content.Explain(x, e)
	} else {
		out = x.Loc.Content.Serve(x)
	}
	x.InterceptsErrors = false                            // it concerns this content only
	if status := x.Response.WithheldStatus; status != 0 { // an error page replaces its response
		x.Response.WithheldStatus = 0
		return x.Fail(status)
	}
	return out
}

// HandlerWriter returns the writer for a bound handler, which may keep it: the server's own, unless
// the response is observed. The exchange can be used again then. After an error of reading the
// request's body the response is nginx's, whatever the handler writes.
func (x *Exchange) HandlerWriter() http.ResponseWriter {
	hasTimeout := x.limitByServer()
	isObserved := x.Loc.observes || x.Loc.deadline != 0 && !hasTimeout || x.ErrorStatus != 0 || x.Body != nil ||
		x.Parent != nil
	if isObserved || len(x.Request.Header["Upgrade"]) > 0 { // a hijacked connection is closed
		x.isKept = true
		return &x.Response
	}
	x.Response.IsBypassed = true
	return x.Response.ResponseWriter
}

// EndWithoutResponse sets the status to log for a request without a response: 444, 499 if the
// client has gone, or that of the error whose page ends so.
func (x *Exchange) EndWithoutResponse(status int) Outcome {
	x.LoggedStatus = cmp.Or(nginxstatus.ClientStatus(x.ErrorStatus), status)
	return Responded
}

// complete ends the response, after all phases.
func (x *Exchange) complete() {
	x.Response.finish()
	if len(x.releases) > 0 && x.Request.ProtoMajor >= 2 && x.LoggedStatus == 0 {
		// HTTP/2 and HTTP/3 send the end of a body after the handler returns, and limit_conn counts
		// until then.
		_ = http.NewResponseController(x.Response.ResponseWriter).Flush()
	}
	x.isComplete = true
}

// Detach makes Run call begin once all phases are over. The exchange then ends when end is called,
// in any goroutine. isComplete reports whether the whole response was made.
func (x *Exchange) Detach(begin func(end func(isComplete bool))) { x.detached = begin }

// leave ends the exchange and leaves the plan, or begins what has detached it.
func (x *Exchange) leave() {
	if begin := x.detached; begin != nil {
		x.detached = nil
		errors := x.ErrorLog()
		begin(func(isComplete bool) {
			defer func() { // as servers do: a program's functions are called, too
				if why := recover(); why != nil {
					errors.Logf(errorlog.LevelError, "panic at the end of a request: %v\n%s", why, debug.Stack())
				}
			}()
			defer x.leave()
			if isComplete {
				x.complete()
			}
		})
		return
	}
	defer x.Plan.Leave()
	x.end()
}

// end releases what the exchange holds, counts and logs it. It is also called after a panic.
func (x *Exchange) end() {
	x.Release()
	x.Received.Close()
	x.Response.Release()
	if x.Plan.Needs&NeedsCounts != 0 {
		x.Plan.State.Counts.end(x)
	}
	x.log()
	x.RecycleProxyState()
	x.recycle()
}

// log is the log phase.
func (x *Exchange) log() {
	if x.Loc == nil {
		return
	}
	if x.Loc.isDebugged {
		x.Errorf(errorlog.LevelDebug, "http finalize request: %d, %q", x.ResponseStatus(), errorlog.Truncate(x.Path))
	}
	for _, log := range x.Loc.logs {
		log(x)
	}
}

// Hold makes the request, to which a subrequest belongs, call release at its end, such as for a
// place in a limit.
func (x *Exchange) Hold(release func()) {
	x = x.Root()
	x.releases = append(x.releases, release)
}

// Release releases what the request holds.
func (x *Exchange) Release() {
	x = x.Root()
	callAll(x.releases)
	x.releases = nil
}

// ResponseStatus returns the status of the response, or the one to log if there is none. It is 0
// before there is one, and if the response is not observed.
func (x *Exchange) ResponseStatus() int {
	switch {
	case x.LoggedStatus != 0:
		return x.LoggedStatus
	case x.ErrorStatus != 0 && x.Response.Status == 0:
		return nginxstatus.ClientStatus(x.ErrorStatus) // its error page has not begun yet
	}
	return x.Response.Status
}

// ResponseBytes returns the length of the response's body.
func (x *Exchange) ResponseBytes() int64 {
	switch {
	case x.rejected != nil:
		return x.rejected.sent
	case x.Request.Method == http.MethodHead:
		return 0
	}
	return x.Response.Sent
}

// Wait waits for a time, or returns false once the client has left.
func (x *Exchange) Wait(delay time.Duration) bool {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-x.Request.Context().Done():
		return false
	}
}

// rejectedRequest is what is logged of a request that the server has rejected.
type rejectedRequest struct {
	line string // as received
	sent int64  // length of the response's body
}

// UpstreamField returns a field of the last response of an upstream.
func (x *Exchange) UpstreamField(name string) []string {
	if x.Proxy == nil {
		return nil
	}
	return x.Proxy.Field(x, name)
}

// RecycleProxyState makes the proxy's memory of a complete exchange available to others.
func (x *Exchange) RecycleProxyState() {
	if x.Proxy != nil && x.isComplete {
		x.Proxy.Recycle(x)
	}
}

// LogRejected logs a request that no handler has seen.
func LogRejected(p *Plan, r *http.Request, line string, status int, sent int64) {
	x := NewExchange(p, make(discardWriter), r)
	defer x.end()
	x.rejected = &rejectedRequest{line, sent}
	name, _ := hostname.Parse(x.HostHeader)
	x.Host = p.Hosts.GroupOf(r).hostFor(x, name)
	x.Loc = &x.Host.defaults
	if x.Path, _ = uri.RequestPath(r.URL, x.Host.KeepSlashes); x.Path == "" {
		x.Args = ""
	}
	x.start()
	x.LoggedStatus, x.isComplete = status, true
}
