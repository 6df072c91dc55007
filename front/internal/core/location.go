package core

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/places"
	"github.com/tarehq/tare/front/internal/uri"
)

// Location is a Location, compiled.
type Location struct {
	Pos      string
	Path     string // or the regular expression
	final    bool   // FinalPrefix
	internal bool
	Pattern  *Pattern   // the regular expression, or nil
	inner    *locations // locations in this one, or nil
	parent   *Location  // the enclosing location, or nil

	steps     []action
	Phases    []Step // between rewrite and content
	Files     any    // rules of FilesModule for finding files
	Content   Content
	isProxied bool // an upstream or a bound handler responds
	observes  bool // responses are changed or observed
	// deadline bounds the time between two writes of a response if the server does not. A bound
	// handler has none unless the Settings set one: it is 0.
	deadline time.Duration
	*Rules
}

// Content responds to a request in the content phase.
type Content interface {
	Serve(x *Exchange) Outcome
	// Explain adds findings about what Serve would do, and responds without doing it.
	Explain(x *Exchange, e *Explanation) Outcome
}

// Page is content that the front makes itself, for methods that read.
type Page struct {
	Name    string // in findings
	Respond func(x *Exchange) Outcome
}

// Serve implements Content.
func (p Page) Serve(x *Exchange) Outcome {
	if x.Method != http.MethodGet && x.Method != http.MethodHead {
		return x.Fail(http.StatusMethodNotAllowed)
	}
	return p.Respond(x)
}

// Explain implements Content.
func (p Page) Explain(x *Exchange, e *Explanation) Outcome { return e.Respond(x, p.Name) }

type handlerContent struct{ http.Handler }

func (handlerContent) Explain(x *Exchange, e *Explanation) Outcome { return e.Respond(x, "a handler") }

func (h handlerContent) Serve(x *Exchange) Outcome {
	x.HandlerHasRequest = true
	h.ServeHTTP(x.HandlerWriter(), x.Request)
	return Responded
}

// locations are the locations of a host, or those in a location.
type locations struct {
	exact    map[string]*Location
	prefixes []prefix // sorted by path
	patterns []*Location
	// "/x" for a location "/x/" with a Proxy: the client is redirected to it
	redirects map[string]*Location
}

// prefix is a location without a regular expression, linked to the longest other one that is a
// prefix of its path.
type prefix struct {
	path  string
	above int // index in prefixes, or -1
	loc   *Location
}

// longest returns the location whose path is the longest prefix of path. It starts at the last one
// that does not sort after path, and follows above. The search is written out: a function for each
// comparison takes 3 % of BenchmarkHandler/bound.
func (l *locations) longest(path string) *Location {
	low, high := -1, len(l.prefixes)
	for low+1 < high {
		if mid := int(uint(low+high) / 2); l.prefixes[mid].path > path {
			high = mid
		} else {
			low = mid
		}
	}
	for i := low; i >= 0; i = l.prefixes[i].above {
		if p := &l.prefixes[i]; strings.HasPrefix(path, p.path) {
			return p.loc
		}
	}
	return nil
}

type searchResult int

const (
	searchNone     searchResult = iota // continue in the enclosing locations
	searchFound                        // the search is over
	searchRedirect                     // redirect the client to the path, which ends in a slash
)

// find finds the location of a path. The innermost one applies, but on each level regular
// expressions come before prefixes.
func (l *locations) find(x *Exchange, path string, best **Location) searchResult {
	if l == nil {
		return searchNone
	}
	if loc := l.exact[path]; loc != nil {
		*best = loc
		return searchFound
	}
	loc := l.longest(path)
	if loc == nil || len(loc.Path) < len(path) {
		if to := l.redirects[path]; to != nil {
			*best = to
			return searchRedirect
		}
	}
	searchPatterns := true
	if loc != nil {
		*best, searchPatterns = loc, !loc.final
		if v := loc.inner.find(x, path, best); v != searchNone {
			return v
		}
	}
	if searchPatterns {
		for _, p := range l.patterns {
			if p.Pattern.Match(x, path) {
				*best = p
				_ = p.inner.find(x, path, best)
				return searchFound
			}
		}
	}
	return searchNone
}

func (x *Exchange) locate() Outcome {
	x.needsLocation = false
	best := &x.Host.defaults
	v := x.Host.locations.find(x, x.Path, &best)
	x.Loc, x.PathRewritten = best, false
	switch {
	case x.RegexTimedOut:
		return x.Fail(http.StatusInternalServerError)
	case best.internal && !x.internal:
		return x.Fail(http.StatusNotFound)
	}
	if out := x.checkLength(); out != Proceed { // before any content
		return out
	}
	if v == searchRedirect {
		return x.SendRedirect(http.StatusMovedPermanently, uri.WithQuery(uri.EscapePath(best.Path), x.Args))
	}
	return Proceed
}

func (c *Compiler) locations(h *host, to *locations, from []conf.Location, parent *Location) {
	all, prefixes := make([]Location, len(from)), make(map[string]*Location)
	for i := range from {
		f, loc := &from[i], &all[i]
		loc.parent = parent
		c.At(f.Pos, func() {
			c.addLocation(h, to, loc, f, prefixes)
			c.location(loc, f)
			if f.Locations != nil {
				loc.inner = new(locations)
				c.locations(h, loc.inner, f.Locations, loc)
			}
		})
	}
	to.sort()
}

// addLocation adds a location to those that are searched. prefixes has the paths of earlier ones.
func (c *Compiler) addLocation(h *host, to *locations, loc *Location, from *conf.Location,
	prefixes map[string]*Location) {
	loc.Path, loc.final, loc.internal = from.Path, from.Match == "^~", from.Internal
	switch from.Match {
	case "", "^~":
		c.checkFirst(prefixes[from.Path])
		prefixes[from.Path] = loc
		to.prefixes = append(to.prefixes, prefix{path: from.Path, loc: loc})
	case "=":
		c.checkFirst(to.exact[from.Path])
		put(&to.exact, from.Path, loc)
	case "~", "~*":
		loc.Pattern = c.Pattern("location", from.Path, from.Match == "~*")
		to.patterns = append(to.patterns, loc)
	case "@":
		c.addNamed(h, loc, from)
		return
	default:
		c.Failf("invalid match %q of a location (must be ^~, =, ~, ~*, @ or empty)", from.Match)
	}
	if loc.Pattern == nil && from.Proxy != nil && len(from.Path) > 1 && strings.HasSuffix(from.Path, "/") {
		put(&to.redirects, strings.TrimSuffix(from.Path, "/"), loc)
	}
	c.checkNesting(loc, from)
}

func (c *Compiler) addNamed(h *host, loc *Location, from *conf.Location) {
	switch {
	case loc.parent != nil:
		c.Failf("named location %q must not be nested", from.Path)
	case !strings.HasPrefix(from.Path, "@"):
		c.Failf("named location %q: want a leading @", from.Path)
	case len(from.Locations) > 0:
		c.Failf("named location %q must not have nested locations", from.Path)
	}
	c.checkFirst(h.named[from.Path])
	h.named[from.Path] = loc
}

// checkFirst rejects a location if there is another one with its path.
func (c *Compiler) checkFirst(other *Location) {
	switch {
	case other == nil:
	case other.Pos == "":
		c.Failf("duplicate location %q", other.Path)
	default:
		c.Failf("duplicate location %q (first one at %s)", other.Path, places.Line(other.Pos))
	}
}

// checkNesting rejects locations that would never be found. As in nginx that of a path is never in
// one of a regular expression.
func (c *Compiler) checkNesting(loc *Location, from *conf.Location) {
	if from.Match == "=" && len(from.Locations) > 0 {
		c.Failf("exact location %q must not have nested locations", from.Path)
	}
	if p := loc.parent; p != nil && loc.Pattern == nil && !strings.HasPrefix(loc.Path, p.Path) {
		c.Failf("location %q is outside of its enclosing location %q", loc.Path, p.Path)
	}
}

func put(to *map[string]*Location, path string, loc *Location) {
	if *to == nil {
		*to = make(map[string]*Location)
	}
	(*to)[path] = loc
}

func (l *locations) sort() {
	slices.SortFunc(l.prefixes, func(a, b prefix) int { return cmp.Compare(a.path, b.path) })
	for i := range l.prefixes {
		p := &l.prefixes[i]
		p.above = i - 1
		for p.above >= 0 && !strings.HasPrefix(p.path, l.prefixes[p.above].path) {
			p.above = l.prefixes[p.above].above
		}
	}
}

// location compiles a Location, except for where it is found.
func (c *Compiler) location(loc *Location, from *conf.Location) {
	loc.Pos, loc.steps = from.Pos, c.steps(from.Steps)
	c.explainLocation(loc, from)
	loc.Rules = c.rules(from.Settings)
	c.checkContent(from)
	loc.Phases = loc.moduleSteps
	if h := c.Options.Handler; h != nil {
		loc.Content = handlerContent{h}
	}
	for _, m := range c.modules {
		if m.Location != nil {
			m.Location(c, loc, from)
		}
	}
	loc.isProxied = from.Proxy != nil
	loc.observes = loc.isObserved || loc.isProxied && from.Proxy.Intercept
	isBound := c.Options.Handler != nil || loc.isProxied && c.Options.Bound[string(from.Proxy.To)] != nil
	if loc.deadline = loc.sendTimeout; isBound {
		loc.deadline = loc.Settings.SendTimeout
	}
}

func (c *Compiler) checkContent(from *conf.Location) {
	kinds := 0
	for _, is := range []bool{from.Proxy != nil, from.Status, from.Metrics, from.Empty} {
		if is {
			kinds++
		}
	}
	if kinds > 1 {
		c.Failf("more than one of Proxy, Status, Metrics and Empty")
	}
}
