package front

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/cache"
	"github.com/tarehq/tare/front/internal/places"
)

// counts are numbers of requests and connections. They outlive plans, and are counted only if a
// location shows them.
type counts struct {
	requests, inFlight atomic.Int64
	conns, accepted    atomic.Int64 // by ConnState
}

// responseCounts are the responses of a host or an upstream, by the first digit of their status.
// Index 0 is for requests without a response.
type responseCounts struct {
	classes   [6]atomic.Int64
	durations histogram
}

// add counts a response with a status, or 0 without one.
func (n *responseCounts) add(status int, took time.Duration) {
	class := status / 100
	if class < 1 || class > 5 {
		class = 0
	}
	n.classes[class].Add(1)
	n.durations.add(took)
}

// limitCounts are the numbers of a zone.
type limitCounts struct{ rejected, delayed atomic.Int64 }

// counting reports whether anything is counted.
func (c *compiler) counting() bool {
	if !c.countingKnown { // avoids visiting all locations again
		c.countingKnown = true
		for p := range places.Of(c.config) {
			if l := p.Location; l != nil && (l.Status || l.Metrics) {
				c.plan.counts = &c.state.counts
				break
			}
		}
	}
	return c.plan.counts != nil
}

// hostCounts returns the counts of a host's name, nil if nothing is counted. Hosts with the same
// name share them.
func (c *compiler) hostCounts(name string) *responseCounts {
	if !c.counting() {
		return nil
	}
	c.use(needsStartTime)
	n := sharedCounts[responseCounts](c, "host "+name)
	if !slices.ContainsFunc(c.plan.countedHosts, func(h countedHost) bool { return h.counts == n }) {
		c.plan.countedHosts = append(c.plan.countedHosts, countedHost{name, n})
	}
	return n
}

// upstreamCounts returns the counts of an upstream, nil if nothing is counted.
func (c *compiler) upstreamCounts(name string) *responseCounts {
	if !c.counting() {
		return nil
	}
	return sharedCounts[responseCounts](c, "upstream "+name)
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

// cacheCounts returns the counts of a cache, nil if nothing is counted.
func (c *compiler) cacheCounts(name string) *cacheCounts {
	if !c.counting() {
		return nil
	}
	if c.plan.cacheCounts == nil {
		c.plan.cacheCounts = make(map[string]*cacheCounts)
	}
	if c.plan.cacheCounts[name] == nil {
		c.plan.cacheCounts[name] = sharedCounts[cacheCounts](c, "cache "+name)
	}
	return c.plan.cacheCounts[name]
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

// countedHost is a host's name with its counts.
type countedHost struct {
	name   string
	counts *responseCounts
}

// limitCounts returns the counts of a zone, and registers their metrics.
func (c *compiler) limitCounts(kind, name string, zone interface{ Len() int }) *limitCounts {
	if found := c.limitCountsByKey[kind+" "+name]; found != nil {
		return found
	}
	n := sharedCounts[limitCounts](c, kind+" "+name)
	if c.limitCountsByKey == nil {
		c.limitCountsByKey = make(map[string]*limitCounts)
	}
	c.limitCountsByKey[kind+" "+name] = n
	c.plan.measures = append(c.plan.measures, func(e *exposition) {
		e.add("tare_limit_rejected_total", counter, "Requests that a limit rejected.", n.rejected.Load(), "zone",
			name, "kind", kind)
		e.add("tare_limit_delayed_total", counter, "Requests that a limit delayed.", n.delayed.Load(), "zone", name,
			"kind", kind)
		e.add("tare_limit_keys", gauge, "Keys in a zone.", int64(zone.Len()), "zone", name, "kind", kind)
	})
	return n
}

// sharedCounts returns counts that plans share.
func sharedCounts[T any](c *compiler, key string) *T {
	n, release, _ := acquire(&c.state.sharedCounts, key, func() (*T, error) { return new(T), nil }, func(*T) {})
	c.plan.releases = append(c.plan.releases, release)
	return n
}

// end counts an exchange at its end.
func (n *counts) end(x *exchange) {
	n.inFlight.Add(-1)
	if x.host == nil || x.host.counts == nil {
		return
	}
	status := x.responseStatus()
	if x.loggedStatus != 0 {
		status = 0
	}
	x.host.counts.add(status, time.Since(x.startTime))
}

// ConnState counts connections. It must be a server's ConnState, or be called by it. Without it and
// without CountConnections, the Handler reports numbers of requests as numbers of connections.
func (h *Handler) ConnState(_ net.Conn, state http.ConnState) {
	switch n := &h.state.counts; state {
	case http.StateNew:
		n.accepted.Add(1)
		n.conns.Add(1)
	case http.StateClosed, http.StateHijacked:
		n.conns.Add(-1)
	}
}

// connections returns the numbers of connections that are known.
func (p *plan) connections() (accepted, open, reading int64) {
	if count := p.options.countConns; count != nil {
		accepted, open, reading = count()
	}
	n := &p.state.counts
	return accepted + n.accepted.Load(), open + n.conns.Load(), reading
}

// connectionNumbers are the numbers of nginx's status page: of connections that were accepted, of
// those that are open, and of open ones on which a part of a head has arrived, a request is in
// progress, or neither.
type connectionNumbers struct{ accepted, active, reading, writing, waiting int64 }

// connectionNumbers returns the numbers. They are not of the same instant, but add up. If the
// server does not report connections, requests count as connections.
func (p *plan) connectionNumbers() (n connectionNumbers) {
	counts := &p.state.counts
	n.accepted, n.active, n.reading = p.connections()
	if n.accepted == 0 {
		n.accepted = counts.requests.Load()
	}
	n.writing = counts.inFlight.Load()
	n.active = max(n.active, n.reading+n.writing)
	n.waiting = n.active - n.reading - n.writing
	return n
}

// connectionsVariable returns a variable with one of the numbers.
func connectionsVariable(number func(connectionNumbers) int64) knownVariable {
	return knownVariable{needs: needsCounts, get: func(x *exchange) string {
		return strconv.FormatInt(number(x.plan.connectionNumbers()), 10)
	}}
}

// statusContent is the content of a location with stub_status.
type statusContent struct{ plan *plan }

// status compiles it.
func (c *compiler) status(*conf.Location) (content, error) { return statusContent{c.plan}, nil }

// serve implements content.
func (s statusContent) serve(x *exchange) outcome {
	requests := s.plan.state.counts.requests.Load()
	n := s.plan.connectionNumbers()
	return x.sendPage("text/plain", fmt.Appendf(nil,
		"Active connections: %d \nserver accepts handled requests\n %d %d %d \nReading: %d Writing: %d Waiting: %d \n",
		n.active, n.accepted, n.accepted, requests, n.reading, n.writing, n.waiting))
}

// sendPage responds with a page that is never cached.
func (x *exchange) sendPage(contentType string, page []byte) outcome {
	if x.r.Method != http.MethodGet && x.r.Method != http.MethodHead {
		return x.fail(http.StatusMethodNotAllowed)
	}
	header := x.w.Header()
	header["Content-Type"] = []string{contentType}
	header["Content-Length"] = []string{strconv.Itoa(len(page))}
	x.w.WriteHeader(http.StatusOK)
	if x.r.Method == http.MethodGet {
		_, _ = x.w.Write(page)
	}
	return responded
}
