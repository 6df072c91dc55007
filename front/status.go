package front

import (
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"

	"github.com/tarehq/tare/front/cache"
)

// counts are numbers of what was answered. They outlive plans, and are only counted if a location shows them.
type counts struct {
	requests, inFlight atomic.Int64
	conns, accepted    atomic.Int64 // as ConnState was told
}

// hostCounts are numbers of a host's answers, by the status's first digit. 0 are those that never came.
type hostCounts struct{ classes [6]atomic.Int64 }

// limitCounts are numbers of what a zone did.
type limitCounts struct{ rejected, delayed atomic.Int64 }

// counting reports whether anything is counted.
func (c *compiler) counting() bool {
	if !c.countingKnown { // it takes a walk through all locations
		c.countingKnown = true
		for p := range c.config.Places() {
			if l := p.Location; l != nil && (l.Status || l.Metrics) {
				c.plan.counts = &c.state.counts
				break
			}
		}
	}
	return c.plan.counts != nil
}

// hostCounts returns those of a host's name, nil if nothing is counted. Hosts of one name have them in common.
func (c *compiler) hostCounts(name string) *hostCounts {
	if !c.counting() {
		return nil
	}
	n := sharedCounts[hostCounts](c, "host "+name)
	if !slices.ContainsFunc(c.plan.countedHosts, func(h countedHost) bool { return h.counts == n }) {
		c.plan.countedHosts = append(c.plan.countedHosts, countedHost{name, n})
	}
	return n
}

// cacheCounts are numbers of how a cache answered, by state.
type cacheCounts struct{ states [7]atomic.Int64 }

// cacheStates are those that are counted.
func cacheStates() [7]cache.State {
	return [...]cache.State{
		cache.StateMiss, cache.StateBypass, cache.StateExpired, cache.StateStale, cache.StateUpdating, cache.StateRevalidated, cache.StateHit,
	}
}

// cacheCounts returns those of a cache, nil if nothing is counted.
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

// countedHost is a host's name and its numbers.
type countedHost struct {
	name   string
	counts *hostCounts
}

// limitCounts returns those of a zone, and has them and the number of keys shown.
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
		e.add("tare_limit_rejected_total", counter, "What limits kept out.", n.rejected.Load(), "zone", name, "kind", kind)
		e.add("tare_limit_delayed_total", counter, "Requests that a limit kept waiting.", n.delayed.Load(), "zone", name, "kind", kind)
		e.add("tare_limit_keys", gauge, "Keys that a zone remembers.", int64(zone.Len()), "zone", name, "kind", kind)
	})
	return n
}

// tally returns numbers that plans share.
func sharedCounts[T any](c *compiler, key string) *T {
	n, giveBack, _ := acquire(&c.state.sharedCounts, key, func() (*T, error) { return new(T), nil }, func(*T) {})
	c.plan.releases = append(c.plan.releases, giveBack)
	return n
}

// end counts an exchange that ends.
func (n *counts) end(x *exchange) {
	n.inFlight.Add(-1)
	if x.host == nil || x.host.counts == nil {
		return
	}
	class := x.responseStatus() / 100
	if x.loggedStatus != 0 || class < 1 || class > 5 {
		class = 0
	}
	x.host.counts.classes[class].Add(1)
}

// ConnState counts connections, if it is what a server's ConnState is, or is called by that. Without it, and without
// CountConnections, the numbers of connections that the Config has shown are those of requests.
func (h *Handler) ConnState(_ net.Conn, state http.ConnState) {
	switch n := &h.state.counts; state {
	case http.StateNew:
		n.accepted.Add(1)
		n.conns.Add(1)
	case http.StateClosed, http.StateHijacked:
		n.conns.Add(-1)
	}
}

// connections are the numbers of those, as far as anybody tells.
func (p *plan) connections() (accepted, open int64) {
	if count := p.options.countConns; count != nil {
		accepted, open = count()
	}
	n := &p.state.counts
	return accepted + n.accepted.Load(), open + n.conns.Load()
}

// busy are the numbers of connections that were accepted, are open, and are being answered. Those that nobody tells of are taken for
// requests.
func (p *plan) busy() (accepted, active, writing int64) {
	n := &p.state.counts
	accepted, active = p.connections()
	if accepted == 0 {
		accepted = n.requests.Load()
	}
	writing = n.inFlight.Load()
	return accepted, max(active, writing), writing
}

func connectionsActive(x *exchange) string {
	_, active, _ := x.plan.busy()
	return strconv.FormatInt(active, 10)
}

func connectionsWriting(x *exchange) string {
	_, _, writing := x.plan.busy()
	return strconv.FormatInt(writing, 10)
}

func connectionsWaiting(x *exchange) string {
	_, active, writing := x.plan.busy()
	return strconv.FormatInt(active-writing, 10)
}

// shownStatus are the numbers of stub_status.
type statusContent struct{ plan *plan }

// status compiles what shows them.
func (c *compiler) status(*Location) (content, error) { return statusContent{c.plan}, nil }

// serve implements content.
func (s statusContent) serve(x *exchange) outcome {
	requests := s.plan.state.counts.requests.Load()
	accepted, active, writing := s.plan.busy()
	return x.sendPage("text/plain", fmt.Appendf(nil,
		"Active connections: %d \nserver accepts handled requests\n %d %d %d \nReading: 0 Writing: %d Waiting: %d \n",
		active, accepted, accepted, requests, writing, active-writing))
}

// show answers with a page that is made anew each time.
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
