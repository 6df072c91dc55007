package front

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"

	"github.com/tarehq/tare/front/cache"
)

// passCache is a PassCache, compiled.
type passCache struct {
	cache   *cache.Cache
	rules   *cache.Rules
	key     cacheKey
	skip    []text
	noStore []text
	refuse  []text // those of NoStore that only the answer gives a value
	purge   []text
	counts  *cacheCounts // nil if nobody asks for them
}

// compileCaches opens the caches of the Config. What a plan has in use with the same name and place goes on, with the bounds
// that it has now.
func (c *compiler) compileCaches() error {
	c.plan.caches = make(map[string]*cache.Cache, len(c.config.Caches))
	dirs := make(map[string]string)
	for _, config := range c.config.Caches {
		if c.plan.caches[config.Name] != nil {
			return fmt.Errorf("there are two caches %q", config.Name)
		}
		if config.Dir != "" {
			dir, err := filepath.Abs(config.Dir)
			if err != nil {
				return err
			}
			if other, ok := dirs[dir]; ok {
				return fmt.Errorf("the caches %q and %q are in the same directory %q", other, config.Name, dir)
			}
			config.Dir, dirs[dir] = dir, config.Name
		}
		if c.options.inMemory {
			config.Dir = ""
		}
		opened, giveBack, err := take(&c.state.caches, fmt.Sprintf("%q %q %v", config.Name, config.Dir, config.Levels),
			func() (*cache.Cache, error) { return cache.Open(config, c.options.logger()) }, (*cache.Cache).Close)
		if err != nil {
			return err
		}
		c.plan.caches[config.Name] = opened
		c.plan.releases = append(c.plan.releases, giveBack)
		c.plan.commits = append(c.plan.commits, func() {
			opened.Resize(config)
			opened.Begin()
		})
	}
	return nil
}

// passCache compiles how a Pass uses a cache; nil if it does not.
func (c *compiler) passCache(p *Pass) (pc *passCache, err error) {
	if p.Cache == nil {
		return nil, nil
	}
	pc = &passCache{cache: c.plan.caches[p.Cache.Zone]}
	if pc.cache == nil {
		return nil, fmt.Errorf("there is no cache %q", p.Cache.Zone)
	}
	if pc.key, err = c.cacheKey(p); err != nil {
		return nil, err
	}
	if pc.skip, err = c.texts(p.Cache.Skip); err != nil {
		return nil, err
	}
	if err = c.noStore(pc, p.Cache.NoStore); err != nil {
		return nil, err
	}
	if pc.purge, err = c.texts(p.Cache.Purge); err != nil {
		return nil, err
	}
	policy := p.Cache.Policy
	policy.Ignore = append(policy.Ignore[:len(policy.Ignore):len(policy.Ignore)], cacheFields(p.Ignore)...)
	if !ignoresField(p.Ignore, "X-Accel-Redirect") {
		policy.Diverts = redirectsRequest
	}
	if pc.rules, err = cache.Compile(policy); err != nil {
		return nil, err
	}
	pc.counts = c.cacheCounts(p.Cache.Zone)
	return pc, nil
}

// noStore compiles what has answers not be kept.
func (c *compiler) noStore(pc *passCache, from []Text) error {
	for _, t := range from {
		c.answers = false
		compiled, err := c.text(t)
		if err != nil {
			return err
		}
		if c.answers {
			pc.refuse = append(pc.refuse, compiled)
		} else {
			pc.noStore = append(pc.noStore, compiled)
		}
	}
	return nil
}

// cacheFields are those of a Pass's Ignore that mean something to caches.
func cacheFields(ignored []string) (names []string) {
	for _, name := range ignored {
		switch http.CanonicalHeaderKey(name) {
		case "Cache-Control", "Expires", "Set-Cookie", "Vary", "X-Accel-Expires":
			names = append(names, name)
		}
	}
	return names
}

// redirectsRequest reports whether a response sends the request elsewhere. What that leads to is for the client that the upstream has
// seen, and for no other.
func redirectsRequest(_ int, header http.Header) bool { return len(header["X-Accel-Redirect"]) > 0 }

// answer answers an exchange from the cache, or by origin.
func (pc *passCache) answer(x *exchange, origin *origin) (*cache.Response, error) {
	q := cache.Query{
		Context: x.r.Context(), Method: x.method, Header: x.r.Header, HasBody: pc.key.lacksBody(x, origin.pass),
		Key: pc.key.of(x, origin), Rules: pc.rules, Skip: anyHolds(pc.skip, x), NoStore: anyHolds(pc.noStore, x) || removesFields(x.r.Header) || hidesFields(x, x.r.Header),
		KeyedByAuthorization: pc.key.hasAuthorization,
	}
	if pc.refuse != nil {
		q.Refuses = func(resp *http.Response) bool {
			x.upstreamHeader = resp.Header
			return anyHolds(pc.refuse, x) || x.stuck
		}
	}
	purges := anyHolds(pc.purge, x)
	if x.stuck { // the key may be another's
		return nil, errStuck()
	}
	if purges {
		return pc.forget(q.Key)
	}
	a, err := pc.cache.Respond(q, origin)
	if err == nil {
		x.cached = a.State
	} else if failed, ok := errors.AsType[*cache.Error](err); ok {
		x.cached = failed.State
	}
	pc.counts.add(x.cached)
	if err == nil && x.stuck { // the response may be of another variant
		a.Discard()
		return nil, errStuck()
	}
	return a, err
}

func errStuck() error {
	return &fetchError{kind: failedNone, status: http.StatusInternalServerError, err: errors.New("a pattern has taken too long")}
}

// forget forgets what is kept of a key, or of all that begin with it if it ends in a star.
func (pc *passCache) forget(key string) (*cache.Response, error) {
	n := 0
	if prefix, ok := strings.CutSuffix(key, "*"); ok {
		n = pc.cache.PurgePrefix(prefix)
	} else {
		n = pc.cache.Purge(key)
	}
	if n == 0 {
		return nil, &fetchError{kind: failedNone, status: http.StatusNotFound, err: errors.New("there is nothing to purge")}
	}
	return &cache.Response{Passed: &http.Response{StatusCode: http.StatusNoContent, Header: make(http.Header), Body: http.NoBody}}, nil
}

func anyHolds(texts []text, x *exchange) bool {
	for i := range texts {
		if texts[i].holds(x) {
			return true
		}
	}
	return false
}

// cacheVariable finds those that tell of the cache.
func cacheVariable(name string) (variable, bool) {
	if name != "upstream_cache_status" {
		return nil, false
	}
	return func(x *exchange) string { return string(x.cached) }, true
}

// Purge has a cache forget the answers of a key, as the Config's key makes it of a request, and returns how many there were.
func (h *Handler) Purge(zone, key string) (int, error) {
	return h.purge(zone, func(c *cache.Cache) int { return c.Purge(key) })
}

// PurgePrefix has a cache forget all answers whose key begins with prefix, which all do if that is empty. It may have to read
// what the cache has on disk.
func (h *Handler) PurgePrefix(zone, prefix string) (int, error) {
	return h.purge(zone, func(c *cache.Cache) int { return c.PurgePrefix(prefix) })
}

func (h *Handler) purge(zone string, f func(*cache.Cache) int) (int, error) {
	p := h.enter()
	if p == nil {
		return 0, http.ErrServerClosed
	}
	defer p.leave()
	c := p.caches[zone]
	if c == nil {
		return 0, fmt.Errorf("front: there is no cache %q", zone)
	}
	return f(c), nil
}
