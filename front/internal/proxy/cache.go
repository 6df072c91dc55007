package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/cache"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/exposition"
	"github.com/tarehq/tare/front/internal/fetch"
	"github.com/tarehq/tare/front/internal/message"
)

type proxyCache struct {
	opened          *openedCache // nil if zone has variables
	zone            core.Text
	all             caches // that zone may name
	rules           *cache.Rules
	key             cacheKey
	skip            []core.Text
	noStore         []core.Text
	noStoreResponse []core.Text // those of NoStore that depend on the response
	purge           []core.Text
	isStreamed      func(http.Header) bool // made once, since it would be an allocation
}

// caches are the caches of a plan, by name.
type caches map[string]*openedCache

type openedCache struct {
	cache  *cache.Cache
	counts *cacheCounts // nil if nothing shows counts
}

// compileCaches opens the caches of the Config. A cache that a plan uses with the same name and
// directory is kept, with its new limits.
func compileCaches(c *core.Compiler) {
	all := make(caches, len(c.Config.Caches))
	c.Plan.Parts = append(c.Plan.Parts, all)
	c.Plan.Measures = append(c.Plan.Measures, all.measure)
	dirs := make(map[string]string)
	for _, config := range c.Config.Caches {
		if all[config.Name] != nil {
			c.Failf("duplicate cache %q", config.Name)
		}
		if config.Dir != "" {
			dir, err := filepath.Abs(config.Dir)
			c.Check("", err)
			if other, ok := dirs[dir]; ok {
				c.Failf("caches %q and %q have the same directory %q", other, config.Name, dir)
			}
			config.Dir, dirs[dir] = dir, config.Name
		}
		if c.Options.InMemory {
			config.Dir = ""
		}
		key := fmt.Sprintf("%q %q %v", config.Name, config.Dir, config.Levels)
		opened, err := core.AcquireForPlan(c, &c.State.Caches, key,
			func() (*cache.Cache, error) { return cache.Open(config, c.Options.Logger()) }, (*cache.Cache).Close)
		c.Check("", err)
		one := &openedCache{cache: opened}
		if all[config.Name] = one; c.Counting() {
			one.counts = core.SharedCounts(c, "cache "+config.Name,
				func(n *cacheCounts, e *exposition.Page) { n.measure(e, config.Name) })
		}
		c.Plan.Commits = append(c.Plan.Commits, func() {
			opened.Resize(config)
			opened.Begin()
		})
	}
}

func compileProxyCache(c *core.Compiler, of *proxy) *proxyCache {
	p := of.from
	if p.Cache == nil {
		return nil
	}
	pc := &proxyCache{zone: c.Text("cache", p.Cache.Zone), all: core.PlanPart[caches](c.Plan), isStreamed: of.isStreamed,
		skip: c.Texts("cache_bypass", p.Cache.Skip), purge: c.Texts("cache_purge", p.Cache.Purge)}
	if pc.opened = pc.all[string(p.Cache.Zone)]; pc.opened == nil && pc.zone.Constant() {
		c.Failf("unknown cache %q", p.Cache.Zone)
	}
	pc.key = compileCacheKey(c, p)
	noStoreTexts(c, pc, p.Cache.NoStore)
	policy := p.Cache.Policy
	policy.Ignore = slices.Clip(policy.Ignore)
	for _, name := range p.Ignore {
		if cache.IsIgnorable(name) {
			policy.Ignore = append(policy.Ignore, name)
		}
	}
	var err error
	pc.rules, err = cache.Compile(policy, !ignoresField(p.Ignore, "X-Accel-Redirect"))
	c.Check("", err)
	return pc
}

// of returns the cache that an exchange uses; nil if it uses none.
func (pc *proxyCache) of(x *core.Exchange) (*openedCache, error) {
	if pc == nil {
		return nil, nil
	}
	if pc.opened != nil {
		return pc.opened, nil
	}
	name := pc.zone.Eval(x)
	if name == "" || name == "off" {
		return nil, nil
	}
	if opened := pc.all[name]; opened != nil {
		return opened, nil
	}
	return nil, fmt.Errorf("unknown cache %q", errorlog.Truncate(name))
}

func noStoreTexts(c *core.Compiler, pc *proxyCache, from []conf.Text) {
	for _, t := range from {
		c.TextNeeds = 0
		compiled := c.Text("no_cache", t)
		if c.TextNeeds&core.NeedsAnyResponse != 0 {
			pc.noStoreResponse = append(pc.noStoreResponse, compiled)
		} else {
			pc.noStore = append(pc.noStore, compiled)
		}
	}
}

// fetchCached returns the response to an exchange from the cache or from the upstream, and the last
// request that the upstream has received, nil without one.
func (p *proxy) fetchCached(x *core.Exchange, target destination, from *openedCache) (*cache.Response,
	*upstreamRequest, error) {
	origin := &cachedOrigin{proxy: p, x: x, target: target, usesFastCGI: p.fastcgi != nil && target.bound == nil}
	q := p.cache.query(origin)
	purges := anyTrue(p.cache.purge, x)
	switch {
	case x.RegexTimedOut: // the key may be that of another request
		return nil, nil, errRegexTimeout()
	case purges && from.cache.Purge(q.Key) == 0:
		err := errors.New("nothing to purge")
		return nil, nil, &fetch.Error{Kind: fetch.NoServer, Status: http.StatusNotFound, Err: err}
	case purges:
		purged := &http.Response{StatusCode: http.StatusNoContent, Header: make(http.Header), Body: http.NoBody}
		return cache.Pass(purged), nil, nil
	}
	a, err := from.cache.Find(q)
	stateOf(x).cacheState = a.State
	from.counts.add(a.State)
	if err == nil && x.RegexTimedOut { // the response may be of another variant
		a.Close()
		return nil, origin.sent, errRegexTimeout()
	}
	return a, origin.sent, err
}

// query returns an exchange's request as the cache sees it.
func (pc *proxyCache) query(origin *cachedOrigin) cache.Query {
	x, p := origin.x, origin.proxy
	q := cache.Query{
		Context: x.Request.Context(), Method: x.Method, Header: x.Request.Header, Origin: origin,
		HasBody: pc.key.bodyNotInKey(x, p), Key: pc.key.eval(x, p, origin.target), Rules: pc.rules,
		Skip: anyTrue(pc.skip, x), NoStore: anyTrue(pc.noStore, x) ||
			removesOwnFields(x.Request.Header) || hidesFields(x, x.Request.Header),
		KeyedByAuthorization: pc.key.hasAuthorization,
		PassesRange:          passesRange(p.from.Cache.Policy.MaxRangeOffset, x.Request.Header),
		IsStreamed:           pc.isStreamed,
	}
	if pc.noStoreResponse != nil {
		q.Rejects = func(resp *http.Response) bool {
			stateOf(x).upstreamHeader = resp.Header
			return anyTrue(pc.noStoreResponse, x) || x.RegexTimedOut
		}
	}
	if slice := stateOf(x).slice; slice != nil { // the key has its range
		q.IsPart = slice.isPart()
	}
	return q
}

func errRegexTimeout() error {
	return &fetch.Error{Kind: fetch.NoServer, Status: http.StatusInternalServerError,
		Err: errors.New("a regular expression exceeded its steps")}
}

func anyTrue(texts []core.Text, x *core.Exchange) bool {
	return slices.ContainsFunc(texts, func(t core.Text) bool { return t.IsTrue(x) })
}

// PurgeZone purges a key from the cache with a name.
func PurgeZone(p *core.Plan, zone, key string) (int, error) {
	c := core.PlanPart[caches](p)[zone]
	if c == nil {
		return 0, fmt.Errorf("front: unknown cache %q", zone)
	}
	return c.cache.Purge(key), nil
}

// cachedOrigin is the cache.Origin of an exchange. Before the request is built its fields are made one
// by one: most requests end with a stored response.
type cachedOrigin struct {
	proxy       *proxy
	x           *core.Exchange
	target      destination
	usesFastCGI bool

	sent   *upstreamRequest // the last one; nil before it is built
	header http.Header      // of sent, for the cache
}

// Request implements cache.Origin. From then on Field does not use the exchange.
func (o *cachedOrigin) Request(opts cache.OriginRequest) cache.Fetch {
	o.sent = o.proxy.newRequest(o.x, o.target, &opts)
	o.header = withConfused(o.x.Host.Fields, o.sent.request.Header)
	return o.sent.do
}

// Field implements cache.Fields.
func (o *cachedOrigin) Field(name string) []string {
	switch {
	case cache.IsConditional(name):
		return nil
	case o.sent == nil:
		return o.fieldOf(name)
	case o.usesFastCGI:
		return paramOf(o.sent.request.Params, name)
	case name == "Host":
		return []string{o.sent.request.Host}
	}
	return o.header[name]
}

// fieldOf returns a field of the request that the exchange would send.
func (o *cachedOrigin) fieldOf(name string) []string {
	x, p := o.x, o.proxy
	switch names := x.Host.Fields; {
	case o.usesFastCGI:
		return p.fastcgi.field(x, name)
	case name == "Host":
		return []string{p.hostFor(x)}
	case names != (message.FieldNames{}), name == "Connection", name == "Upgrade", name == "Te":
		return withConfused(names, p.header.build(x, p.upstream.IsHTTP2, new(headerMemory)))[name]
	}
	var values []string
	if p.header.passes(name, x.Request.Header, x.Host.Fields) {
		values = x.Request.Header[name]
	}
	return p.header.appendField(x, slices.Clip(values), name)
}
