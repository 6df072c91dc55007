package front

import (
	"slices"
	"sync/atomic"
	"time"

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

// countedHost is a host's name with its counts.
type countedHost struct {
	name   string
	counts *responseCounts
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

// statusClasses returns the names of classes of statuses. The first one is for no response.
func statusClasses() [6]string { return [...]string{"none", "1xx", "2xx", "3xx", "4xx", "5xx"} }
