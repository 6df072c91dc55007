package proxy

import (
	"maps"
	"slices"
	"sync/atomic"

	"github.com/tarehq/tare/front/internal/cache"
	"github.com/tarehq/tare/front/internal/exposition"
)

// cacheCounts are the requests of a cache, by its result.
type cacheCounts struct{ states [7]atomic.Int64 }

func cacheStates() []cache.State {
	return []cache.State{
		cache.StateMiss, cache.StateBypass, cache.StateExpired, cache.StateStale, cache.StateUpdating,
		cache.StateRevalidated, cache.StateHit,
	}
}

func (n *cacheCounts) add(s cache.State) {
	if i := slices.Index(cacheStates(), s); n != nil && i >= 0 {
		n.states[i].Add(1)
	}
}

func (n *cacheCounts) measure(e *exposition.Page, name string) {
	for i, state := range cacheStates() {
		e.Add("tare_cache_requests_total", exposition.Counter, "Requests that used a cache, by the cache's result.",
			n.states[i].Load(), "cache", name, "state", string(state))
	}
}

// measure adds the servers of upstreams, one for each address of a name.
func (u upstreams) measure(e *exposition.Page) {
	for _, name := range slices.Sorted(maps.Keys(u)) {
		shown := make(map[string]bool)
		for _, s := range u[name].servers.Peers.Status() {
			if shown[s.Addr] { // a server may be listed twice
				continue
			}
			shown[s.Addr] = true
			server, up := []string{"upstream", name, "server", s.Addr}, int64(1)
			if s.Down || s.Resting || s.Failed {
				up = 0
			}
			e.Add("tare_upstream_server_up", exposition.Gauge,
				"Whether a server gets requests: 0 if it is down, has failed recently, or fails its checks.", up,
				server...)
			e.Add("tare_upstream_server_requests", exposition.Gauge, "Requests in progress on a server.",
				int64(s.Conns), server...)
			if s.Checks > 0 {
				e.Add("tare_upstream_server_checks_total", exposition.Counter, "Active health checks of a server.",
					s.Checks, server...)
				e.Add("tare_upstream_server_failed_checks_total", exposition.Counter,
					"Active health checks that have failed.", s.FailedChecks, server...)
			}
		}
	}
}

func (all caches) measure(e *exposition.Page) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		responses, memory, disk := all[name].cache.Len()
		e.Add("tare_cache_responses", exposition.Gauge, "Responses in a cache.", responses, "cache", name)
		e.Add("tare_cache_memory_bytes", exposition.Gauge, "Memory that a cache uses.", memory, "cache", name)
		e.Add("tare_cache_disk_bytes", exposition.Gauge, "Disk space that a cache uses.", disk, "cache", name)
	}
}
