package front

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/front/internal/cache"
	"github.com/tarehq/tare/front/internal/hostname"
	"github.com/tarehq/tare/front/internal/uri"
	"github.com/tarehq/tare/internal/pcre"
	"github.com/tarehq/tare/internal/poison"
)

// exchange is one request and its response on their way through the phases.
type exchange struct {
	plan   *plan
	parent *exchange     // the exchange that this is a subrequest of, or nil
	w      writer        // of the response
	r      *http.Request // as received, except for its Host

	hostHeader string // Host as received

	host *host
	loc  *location // the host's defaults until a location is found
	path string    // $uri: normalized; changed by rewrite and internal redirects
	args string    // $args

	triedFile string // the file of try_files, in a location with a regular expression and an alias

	method            string // the request's, or GET for an error page
	entry             entry  // where runPhases continues
	named             *location
	needsLocation     bool // rewrite has changed the path
	internal          bool // the location was not found for the client's path
	uriChanged        bool // path or query are no longer the client's
	rewritten         bool // the location was not found for path
	regexTimedOut     bool // a regular expression has failed: no result is valid
	handlerHasRequest bool // a handler has received r, and may keep it
	errorPageUsed     bool // error pages have applied, and may not again
	redirects         int  // internal redirects and changes of the path so far
	errorStatus       int  // the error whose page is being sent, or 0

	regexes    pcre.Budget // of the request's regular expressions, including those of subrequests
	captures   captures
	vars       []value       // by slot: variables of Set, Map and named groups
	limitRate  string        // $limit_rate, if set
	connUse    connUse       // the connection, if the plan counts its requests
	id         string        // $request_id, once it was read
	trace      *traceContext // once it was used
	cacheState cache.State   // what the cache did
	part       parted        // nil unless the response is fetched in parts
	states     []any         // of modules, by slot; nil until one has any

	// For filters, limits and logs.
	isObserved    bool           // the response passes through w, also if a bound handler makes it
	isKept        bool           // a handler may keep w
	body          *limitedBody   // the request's; nil if it has none
	startTime     time.Time      // if the plan needs it
	address       *clientAddress // nil until it is needed: see realip.go
	ownAddress    clientAddress
	limitReleases []func() // release places in limits

	upstreamURL string // the last one, for the error log

	interceptsErrors bool    // statuses from 300 on are left to error pages
	isComplete       bool    // the content has returned without a panic
	addedTo          *writer // the response that the body of this subrequest is added to, or nil
	// The status to respond with if the request's body could not be read; 0 while it can. An
	// upstream request may read the body in another goroutine.
	bodyStatus   atomic.Int32
	loggedStatus int              // the status to log if there is no response
	rejected     *rejectedRequest // nil unless the server has rejected the request
	originalHead int64            // length of the request's head before dropBody changed it; else 0

	requestLimit, connLimit limitResult

	sendTimeout time.Duration // that the server applies to the response; 0 if it was not set

	proxy *proxyState // nil until a proxy is used, and after its memory was released
}

// value is the value of a variable with a slot.
type value struct {
	text  string
	isSet bool
}

// outcome is the result of a phase.
type outcome int

const (
	proceed   outcome = iota // the next phase follows
	responded                // the exchange is over, except for the log phase
	relocate                 // the path has changed: find its location
)

// entry is the phase with which an exchange continues.
type entry int

const (
	atHost     entry = iota // the host's rewrite phase: initially, and after an internal redirect
	atLocation              // finding the location: after a rewrite
	atNamed                 // the rewrite phase of a named location
)

// maxRedirects bounds the internal redirects of a request, as in nginx.
const maxRedirects = 10

// newExchange returns an exchange, with memory of the free list if there is any.
func newExchange(p *plan, w http.ResponseWriter, r *http.Request) *exchange {
	x, ok := p.state.exchanges.Get().(*exchange)
	if !ok {
		x = new(exchange)
	}
	x.plan, x.r, x.hostHeader, x.method, x.args = p, r, r.Host, r.Method, r.URL.RawQuery
	x.w.ResponseWriter, x.w.x = w, x
	return x
}

// recycle returns the exchange to the free list if nothing else can refer to it. A handler may keep
// what wraps the response or the body, and a cache what proxies. The free list saves 0.2 µs and
// half of the allocated bytes of a bound handler's request. Memory is zeroed, and in builds with
// the tag poison never reused, so that later uses fail.
func (x *exchange) recycle() {
	if !x.isComplete || x.isKept || x.body != nil || x.proxy != nil {
		return
	}
	s := x.plan.state
	regexes := x.regexes
	regexes.Reset()
	if *x = (exchange{regexes: regexes}); !poison.Enabled {
		s.exchanges.Put(x)
	}
}

// run takes the exchange through the phases.
func (x *exchange) run() {
	defer x.end()
	out := x.findHost()
	for out == relocate {
		out = x.runPhases()
	}
	x.complete()
}

// findHost finds the host, and rejects requests that no location may see.
func (x *exchange) findHost() outcome {
	group := x.plan.hosts.groupOf(x.r)
	name, ok := hostname.Parse(x.hostHeader)
	var status int
	x.host, status = group.selectHost(x, name)
	x.loc = &x.host.defaults
	x.start()
	x.applyLocation()
	switch {
	case !ok, x.isMalformed():
		return x.fail(http.StatusBadRequest)
	case x.regexTimedOut:
		x.errorf(levelError, "the regular expressions of server names have failed")
		return x.fail(http.StatusInternalServerError)
	}
	if rejected := group.connections.status(x.r); rejected != 0 {
		return x.fail(rejected)
	}
	if status != 0 {
		return x.fail(status)
	}
	if x.method == http.MethodConnect || x.method == http.MethodTrace {
		return x.rejectMethod()
	}
	if !x.findPath() {
		return x.fail(http.StatusBadRequest)
	}
	return relocate
}

// phase is a phase between rewrite and content, with its name in findings.
type phase struct {
	name string
	run  func(x *exchange) outcome
}

func phases() [3]phase {
	return [...]phase{
		{"limits", func(x *exchange) outcome { return x.loc.limits.check(x) }},
		{"access", func(x *exchange) outcome { return x.loc.access.check(x) }},
		{"try_files", func(x *exchange) outcome { return x.loc.tryFiles.run(x) }},
	}
}

// runPhases finds a location and runs its phases.
func (x *exchange) runPhases() outcome {
	switch x.entry {
	case atHost:
		if out := x.rewriteHost(); out != proceed {
			return out
		}
		fallthrough
	case atLocation:
		x.triedFile = ""
		if out := x.locate(); out != proceed {
			return out
		}
	case atNamed:
		x.loc = x.named
		x.applyLocation()
	}
	if x.loc.isDebugged {
		x.logLocation()
	}
	if x.loc.keepAlive != (keepAliveLimits{}) {
		x.limitKeepAlive()
	}
	if x.loc.settings.Closed != "" {
		return x.failClosed()
	}
	if out := x.rewrite(); out != proceed {
		return out
	}
	if x.loc.settings.Closed != "" { // the location of an if
		return x.failClosed()
	}
	if x.loc.trace != nil && x.loc.trace.inject {
		x.injectTrace()
	}
	for _, p := range phases() {
		if out := p.run(x); out != proceed {
			return x.explainEnd(p.name, out)
		}
	}
	for _, run := range x.loc.effects.steps {
		if out := run(x); out != proceed {
			return out
		}
	}
	return x.serve()
}

// restart continues with another location, unless there were too many redirects.
func (x *exchange) restart(next entry) outcome {
	x.entry, x.needsLocation = next, false
	if x.redirects++; x.redirects > maxRedirects {
		x.errorf(levelError, "rewrite or internal redirection cycle while processing %q", truncateLogged(x.path))
		x.explainCycle()
		return x.fail(http.StatusInternalServerError)
	}
	return relocate
}

// redirect redirects internally to a decoded path and a query of the same host.
func (x *exchange) redirect(path, args string) outcome {
	path, ok := uri.CleanPath(path, true)
	if !ok {
		return x.fail(http.StatusInternalServerError)
	}
	return x.redirectTo(path, args)
}

// redirectTo is redirect for a normalized path.
func (x *exchange) redirectTo(path, args string) outcome {
	x.path, x.args, x.internal, x.uriChanged = path, args, true, true
	return x.restart(atHost)
}

// redirectNamed redirects internally to a named location of the host; name includes the "@".
func (x *exchange) redirectNamed(name string) outcome {
	loc := x.host.named[name]
	if loc == nil {
		return x.fail(http.StatusInternalServerError)
	}
	x.named, x.internal = loc, true
	return x.restart(atNamed)
}
