package core

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/fetch"
	"github.com/tarehq/tare/front/internal/hostname"
	"github.com/tarehq/tare/front/internal/uri"
	"github.com/tarehq/tare/internal/pcre"
	"github.com/tarehq/tare/internal/poison"
)

// Exchange is one request and its response on their way through the phases.
type Exchange struct {
	Plan       *Plan
	Request    *http.Request // as received, except for its Host
	HostHeader string        // Host as received
	Response   Writer
	Parent     *Exchange // the exchange that this is a subrequest of, or nil
	AddedTo    *Writer   // the response that the body of this subrequest is added to, or nil

	Host          *host
	Loc           *Location // the host's defaults until a location is found
	Method        string    // the request's, or GET for an error page
	Path          string    // $uri: normalized; changed by rewrite and internal redirects
	Args          string    // $args
	TriedFile     string    // the file of try_files, in a location with a regular expression and an alias
	URIChanged    bool      // path or query are no longer the client's
	PathRewritten bool      // a rewrite has changed the path since the location was found
	internal      bool      // redirected internally: it may enter internal locations
	Redirects     int       // internal redirects and changes of the path so far

	entry         entry // where runPhases continues
	needsLocation bool  // a rewrite has changed the path, whose location is to be found

	ErrorStatus      int  // the error whose page is being sent, or 0
	errorPageUsed    bool // error pages have applied, and may not again
	InterceptsErrors bool // error pages replace statuses of the content from 300 on
	RegexTimedOut    bool // a regular expression has failed: no result is valid
	ExpectedTLS      bool // the request came without TLS to a port that expects it
	// The status to respond with if the request's body could not be read; 0 while it can. An
	// upstream request may read the body in another goroutine.
	BodyStatus   atomic.Int32
	LoggedStatus int              // the status to log if there is no response
	rejected     *rejectedRequest // nil unless the server has rejected the request

	Vars        []value       // by slot: variables of Set, Map and named groups
	Captures    captures      // of the last regular expression that has matched
	regexes     *pcre.Budget  // of the request's regular expressions; nil before the first of them
	States      []any         // of modules, by slot; nil until one has any
	LimitRate   string        // $limit_rate, if set
	ID          string        // $request_id, once it was read
	UpstreamURL string        // of the last request to an upstream, for the error log
	StartTime   time.Time     // if the plan needs it
	ConnUse     connUse       // the connection, if the plan counts its requests
	Address     clientAddress // that of the Root, once it is needed: see realip.go

	Body     *limitedBody  // the request's; nil if it has none
	Received *fetch.Body   // the Body as far as it was received for an upstream; nil before
	dropped  *http.Request // the request before dropBody removed its body; else nil

	HandlerHasRequest bool                            // a handler has received Request, and may keep it
	isKept            bool                            // a handler may keep Response
	isComplete        bool                            // the content has returned without a panic
	releases          []func()                        // of Hold
	detached          func(end func(isComplete bool)) // of Detach

	Proxy upstreamState // nil until a proxy is used, and after its memory was released
}

// upstreamState is what a proxy keeps of an exchange.
type upstreamState interface {
	Field(x *Exchange, name string) []string // of the last response
	Recycle(x *Exchange)                     // at the end of a complete exchange
}

type value struct {
	text  string
	isSet bool
}

// Outcome is the result of a phase.
type Outcome int

const (
	Proceed   Outcome = iota // the next phase follows
	Responded                // the exchange is over, except for the log phase
	Relocate                 // the path has changed: find its location
)

// entry is the phase with which an exchange continues.
type entry int

const (
	atHost     entry = iota // the host's rewrite phase: initially, and after an internal redirect
	atLocation              // finding the location: after a rewrite
	atNamed                 // the rewrite phase of the named location that Loc is
)

// maxRedirects bounds the internal redirects of a request, as in nginx.
const maxRedirects = 10

// NewExchange returns an exchange, with memory of the free list if there is any.
func NewExchange(p *Plan, w http.ResponseWriter, r *http.Request) *Exchange {
	x, ok := p.State.exchanges.Get().(*Exchange)
	if !ok {
		x = new(Exchange)
	}
	x.Plan, x.Request, x.HostHeader, x.Method, x.Args = p, r, r.Host, r.Method, r.URL.RawQuery
	x.Response.ResponseWriter, x.Response.X = w, x
	return x
}

// recycle returns the exchange to the free list if nothing else can refer to it. A handler may keep
// what wraps the response or the body, and a cache what proxies. The free list saves 0.2 µs and
// half of the allocated bytes of a bound handler's request. Memory is zeroed, and in builds with
// the tag poison never reused, so that later uses fail.
func (x *Exchange) recycle() {
	if !x.isComplete || x.isKept || x.Body != nil || x.Proxy != nil {
		return
	}
	s := x.Plan.State
	regexes := x.regexes
	if regexes != nil {
		regexes.Reset()
	}
	if *x = (Exchange{regexes: regexes}); !poison.Enabled {
		s.exchanges.Put(x)
	}
}

// Run takes the exchange through the phases, and leaves the plan at its end.
func (x *Exchange) Run() {
	defer x.leave()
	out := x.findHost()
	for out == Relocate {
		out = x.runPhases()
	}
	if x.detached == nil {
		x.complete()
	}
}

// findHost finds the host, and rejects requests that no location may see.
func (x *Exchange) findHost() Outcome {
	group := x.Plan.Hosts.GroupOf(x.Request)
	name, ok := hostname.Parse(x.HostHeader)
	var status int
	x.Host, status = group.selectHost(x, name)
	x.start()
	x.LeaveLocation()
	hasPath := x.findPath() // for error pages and logs, whatever follows
	switch {
	case !ok, x.isMalformed():
		return x.Fail(http.StatusBadRequest)
	case x.RegexTimedOut:
		x.Errorf(errorlog.LevelError, "the regular expressions of server names have failed")
		return x.Fail(http.StatusInternalServerError)
	}
	if rejected := group.connections.status(x); rejected != 0 {
		if e := x.Plan.Options.Explain; e != nil {
			e.Add(x, "server", x.Host.pos, "rejects the connection's requests with %d", rejected)
		}
		return x.Fail(rejected)
	}
	if status != 0 {
		return x.Fail(status)
	}
	switch {
	case x.Method == http.MethodConnect, x.Method == http.MethodTrace:
		return x.rejectMethod()
	case !hasPath:
		return x.Fail(http.StatusBadRequest)
	}
	return Relocate
}

// runPhases finds a location and runs its phases.
func (x *Exchange) runPhases() Outcome {
	switch x.entry {
	case atHost:
		x.Loc = &x.Host.defaults
		if e := x.Plan.Options.Explain; e != nil {
			e.host(x)
		}
		if out := x.runActions(x.Host.steps); out != Proceed {
			return out
		}
		fallthrough
	case atLocation:
		x.TriedFile = ""
		if out := x.locate(); out != Proceed {
			return out
		}
	}
	if x.Loc.isDebugged {
		x.Errorf(errorlog.LevelDebug, "using configuration %q for %q", x.Loc.Path, errorlog.Truncate(x.Path))
	}
	if x.ConnUse.info != nil {
		x.limitKeepAlive()
	}
	if x.Loc.Settings.Closed != "" {
		return x.failClosed()
	}
	if out := x.rewrite(); out != Proceed {
		return out
	}
	if x.Loc.Settings.Closed != "" { // the location of an if
		return x.failClosed()
	}
	return x.runSteps()
}

// runSteps runs the phases of a location between rewrite and content, and then the content. If a
// regular expression exceeded its steps the request is rejected, since the phases may depend on its
// result.
func (x *Exchange) runSteps() Outcome {
	// an error page may have the request's method, too
	if x.Request.ContentLength != 0 && x.Method == x.Request.Method {
		if out := x.limitBody(); out != Proceed {
			return x.explainEnd("limits", out)
		}
	}
	if rules := x.Loc.realIP; rules != x.Host.defaults.realIP { // as in nginx, after the rewrite phase
		x.ClientAddress().update(x, rules)
	}
	for i := range x.Loc.Phases {
		if x.RegexTimedOut {
			break
		}
		s := &x.Loc.Phases[i]
		if out := s.Run(x); out != Proceed {
			return x.explainEnd(s.Name, out)
		}
	}
	if x.RegexTimedOut {
		return x.Fail(http.StatusInternalServerError)
	}
	return x.serve()
}

// restart continues with another location, unless there were too many redirects.
func (x *Exchange) restart(next entry) Outcome {
	x.entry, x.needsLocation = next, false
	if x.Redirects++; x.Redirects > maxRedirects {
		x.Errorf(errorlog.LevelError, "rewrite or internal redirection cycle while processing %q",
			errorlog.Truncate(x.Path))
		if e := x.Plan.Options.Explain; e != nil {
			e.Add(x, "rewrite", "", "more than %d internal redirects", maxRedirects)
		}
		return x.Fail(http.StatusInternalServerError)
	}
	return Relocate
}

// Redirect redirects internally to a decoded path and a query of the same host.
func (x *Exchange) Redirect(path, args string) Outcome {
	path, ok := uri.CleanPath(path, true)
	if !ok {
		return x.failRedirect()
	}
	return x.RedirectTo(path, args)
}

// failRedirect responds if there is no target. It counts as a redirect: an error page of status 500
// may have led here, and may do so again.
func (x *Exchange) failRedirect() Outcome {
	x.Redirects++
	return x.Fail(http.StatusInternalServerError)
}

// RedirectTo is Redirect for a normalized path.
func (x *Exchange) RedirectTo(path, args string) Outcome {
	x.Path, x.Args, x.internal, x.URIChanged = path, args, true, true
	return x.restart(atHost)
}

// RedirectNamed redirects internally to a named location of the host; name includes the "@".
func (x *Exchange) RedirectNamed(name string) Outcome {
	loc := x.Host.named[name]
	if loc == nil {
		x.Errorf(errorlog.LevelError, "could not find named location %q", errorlog.Truncate(name))
		return x.failRedirect()
	}
	x.Loc, x.internal = loc, true
	return x.restart(atNamed)
}
