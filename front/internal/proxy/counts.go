package proxy

import (
	"maps"
	"slices"
	"sync/atomic"

	"github.com/tarehq/tare/front/internal/cache"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/exposition"
)

// upstreamCounts returns the counts of an upstream, nil if nothing is counted.
func upstreamCounts(c *core.Compiler, name string) *core.ResponseCounts {
	if !c.Counting() {
		return nil
	}
	return core.SharedCounts[core.ResponseCounts](c, "upstream "+name)
}

// cacheCounts are the requests of a cache, by its result.
type cacheCounts struct{ states [7]atomic.Int64 }

// cacheStates returns the results that are counted.
func cacheStates() [7]cache.State {
	return [...]cache.State{
		cache.StateMiss, cache.StateBypass, cache.StateExpired, cache.StateStale, cache.StateUpdating,
		cache.StateRevalidated, cache.StateHit,
	}
}

// compileCacheCounts returns the counts of a cache, nil if nothing is counted.
func compileCacheCounts(c *core.Compiler, name string) *cacheCounts {
	all := core.PlanPart[*caches](c.Plan)
	if !c.Counting() {
		return nil
	}
	if all.counts == nil {
		all.counts = make(map[string]*cacheCounts)
	}
	if all.counts[name] == nil {
		all.counts[name] = core.SharedCounts[cacheCounts](c, "cache "+name)
	}
	return all.counts[name]
}

func (n *cacheCounts) add(s cache.State) {
	if n == nil {
		return
	}
	for i, state := range cacheStates() {
		if state == s {
			n.states[i].Add(1)
		}
	}
}

// measure adds the servers of upstreams, one for each address of a name.
func (u *upstreams) measure(e *exposition.Page) {
	for _, name := range slices.Sorted(maps.Keys(u.groups)) {
		if n := u.groups[name].counts; n != nil {
			for i, class := range core.StatusClasses() {
				e.Add("tare_upstream_responses_total", exposition.Counter,
					"Responses of an upstream, by class of the status; none are attempts without a response.",
					n.Classes[i].Load(), "upstream", name, "class", class)
			}
			e.AddHistogram("tare_upstream_header_seconds", "Times until the head of an upstream's response arrived.",
				&n.Durations, "upstream", name)
		}
		shown := make(map[string]bool)
		for _, s := range u.groups[name].servers.Peers.Status() {
			if shown[s.Addr] { // a server may be listed twice
				continue
			}
			shown[s.Addr] = true
			up := int64(1)
			if s.Down || s.Resting || s.Failed {
				up = 0
			}
			e.Add("tare_upstream_server_up", exposition.Gauge,
				"Whether a server gets requests: 0 if it is down, has failed recently, or fails its checks.", up,
				"upstream", name,
				"server", s.Addr)
			e.Add("tare_upstream_server_requests", exposition.Gauge, "Requests in progress on a server.",
				int64(s.Conns),
				"upstream", name, "server", s.Addr)
			if s.Checks > 0 {
				e.Add("tare_upstream_server_checks_total", exposition.Counter, "Active health checks of a server.",
					s.Checks,
					"upstream", name, "server", s.Addr)
				e.Add("tare_upstream_server_failed_checks_total", exposition.Counter,
					"Active health checks that have failed.",
					s.FailedChecks, "upstream", name, "server", s.Addr)
			}
		}
	}
}

func (all *caches) measure(e *exposition.Page) {
	for _, name := range slices.Sorted(maps.Keys(all.byName)) {
		responses, memory, disk := all.byName[name].Len()
		e.Add("tare_cache_responses", exposition.Gauge, "Responses in a cache.", responses, "cache", name)
		e.Add("tare_cache_memory_bytes", exposition.Gauge, "Memory that a cache uses.", memory, "cache", name)
		e.Add("tare_cache_disk_bytes", exposition.Gauge, "Disk space that a cache uses.", disk, "cache", name)
		for i, state := range cacheStates() {
			if n := all.counts[name]; n != nil {
				e.Add("tare_cache_requests_total", exposition.Counter,
					"Requests that used a cache, by the cache's result.",
					n.states[i].Load(),
					"cache", name, "state", string(state))
			}
		}
	}
}
