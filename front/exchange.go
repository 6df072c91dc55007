package front

import (
	"net/http"

	"github.com/tarehq/tare/front/cache"
)

// exchange is one request and its answer, on their way through the phases.
type exchange struct {
	plan   *plan
	parent *exchange           // whose subrequest it is, else nil
	w      http.ResponseWriter // what the content is written to
	r      *http.Request       // as it came, but for its Host

	hostHeader string // Host, as it came

	host *host
	loc  *location // the host's defaults until one is found
	path string    // normalized: $uri. rewrite and internal redirects change it
	args string    // $args

	triedFile string // what try_files has found behind the alias of a regular expression

	method            string // the request's, or GET once an error page answers
	entry             entry  // where answer goes on
	named             *location
	needsLocation     bool // a rewrite has changed the path: a location is to be found for it
	internal          bool // the location was not found for the client's path
	uriChanged        bool // the path, or the query, is no longer the client's
	rewritten         bool // nor is it the one by which the location was found
	regexTimedOut     bool // patterns have taken too many steps: nobody knows whether they match
	regexSteps        int  // that patterns have taken, those of subrequests included
	handlerHasRequest bool // a handler has been given the request, and may have it still
	errorPageUsed     bool // error pages have been asked, and may not be again
	redirects         int  // internal ones so far, and changes of the path
	errorStatus       int  // of the error whose page is being answered, else 0

	captures   captures
	vars       []value     // of slots: those that Set, Map and named groups give values
	limitRate  string      // $limit_rate, if it was set
	connUse    connUse     // the connection, if the plan counts its requests
	id         string      // $request_id, once it was asked for
	cacheState cache.State // what a cache had to do with the answer

	exchangeState
	*proxyState // nil until an upstream is asked, and in the end
}

// value is that of a variable that has a slot.
type value struct {
	text  string
	isSet bool
}

// outcome is how a phase ends.
type outcome int

const (
	proceed   outcome = iota // with the next phase
	responded                // it is over, but for the log
	relocate                 // a location is to be found for the path, which has changed: an internal redirect
)

// entry is the phase that an exchange goes on with.
type entry int

const (
	atHost     entry = iota // the host's rewrite phase: at the beginning, and after an internal redirect
	atLocation              // a location is found: after a rewrite
	atNamed                 // the rewrite phase of a named location
)

// maxRedirects bounds internal redirects of a request, as nginx does.
const maxRedirects = 10

// newExchange returns memory that was given back, if there is any.
func newExchange(p *plan, w http.ResponseWriter, r *http.Request) *exchange {
	x, ok := p.state.exchanges.Get().(*exchange)
	if !ok {
		x = new(exchange)
	}
	x.plan, x.w, x.r, x.hostHeader, x.method, x.args = p, w, r, r.Host, r.Method, r.URL.RawQuery
	return x
}

// giveBack gives the exchange's memory back, if nobody else has it: who sees the answer or reads the body may be kept by a handler, and
// what passes on by a cache. 0.2 us of a bound handler's request, which allocates half as much. Whoever used it all the same would
// meet nil, for ever in builds that poison.
func (x *exchange) recycle() {
	if !x.isComplete || x.out != nil || x.body != nil || x.proxyState != nil {
		return
	}
	s := x.plan.state
	if *x = (exchange{}); !poisons {
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

// arrive finds the host, and refuses what no location shall see.
func (x *exchange) findHost() outcome {
	group := x.plan.hosts.groupOf(x.r)
	name, ok := hostName(x.hostHeader)
	var status int
	x.host, status = group.selectHost(x, name)
	x.loc = &x.host.defaults
	x.start()
	x.applyLocation()
	switch {
	case !ok, malformed(x.r):
		return x.fail(http.StatusBadRequest)
	case x.regexTimedOut:
		x.errorf(levelError, "the regular expressions of the hosts' names take more than %d steps", maxRegexSteps)
		return x.fail(http.StatusInternalServerError)
	}
	if status != 0 {
		return x.fail(status)
	}
	if x.method == http.MethodConnect && x.r.ProtoMajor == 1 {
		x.w.Header()["Connection"] = []string{"close"} // what follows may be meant for somebody else
	}
	if x.method == http.MethodConnect || x.method == http.MethodTrace {
		return x.fail(http.StatusMethodNotAllowed)
	}
	if !x.findPath() {
		return x.fail(http.StatusBadRequest)
	}
	return relocate
}

// answer finds a location and has it answer.
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
	if x.loc.keepAlive != (keepAliveLimits{}) {
		x.limitKeepAlive()
	}
	if x.loc.settings.Closed != "" {
		return x.failClosed()
	}
	if out := x.rewrite(); out != proceed {
		return out
	}
	if x.loc.settings.Closed != "" { // that of an if
		return x.failClosed()
	}
	if out := x.loc.limits.check(x); out != proceed {
		return out
	}
	if out := x.loc.access.check(x); out != proceed {
		return out
	}
	if x.loc.tryFiles != nil {
		if out := x.loc.tryFiles.run(x); out != proceed {
			return out
		}
	}
	return x.serve()
}

// goOn begins another cycle, unless there were too many.
func (x *exchange) restart(next entry) outcome {
	x.entry, x.needsLocation = next, false
	if x.redirects++; x.redirects > maxRedirects {
		return x.fail(http.StatusInternalServerError)
	}
	return relocate
}

// redirect goes to another URI of the host, path and query, without the client's knowing. The path is decoded.
func (x *exchange) redirect(path, args string) outcome {
	path, ok := cleanPath(path, true)
	if !ok {
		return x.fail(http.StatusInternalServerError)
	}
	return x.redirectTo(path, args)
}

// redirectTo is redirect to a path that is clean.
func (x *exchange) redirectTo(path, args string) outcome {
	x.path, x.args, x.internal, x.uriChanged = path, args, true, true
	return x.restart(atHost)
}

// redirectNamed goes to a named location, "@" and a name, of the host.
func (x *exchange) redirectNamed(name string) outcome {
	loc := x.host.named[name]
	if loc == nil {
		return x.fail(http.StatusInternalServerError)
	}
	x.named, x.internal = loc, true
	return x.restart(atNamed)
}
