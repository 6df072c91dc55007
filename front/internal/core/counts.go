package core

import (
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/front/internal/exposition"
)

// counts are numbers of requests and connections. They outlive plans, and are counted only if a
// location shows them.
type counts struct {
	Requests, InFlight atomic.Int64
	Conns, Accepted    atomic.Int64 // by ConnState
	Hijacked           atomic.Int64 // connections of requests in flight, which servers do not count
}

// ResponseCounts are the responses of a host or an upstream, by the first digit of their status.
// Index 0 is for requests without a response.
type ResponseCounts struct {
	Classes   [6]atomic.Int64
	Durations exposition.Histogram
}

// Add counts a response with a status, or 0 without one.
func (n *ResponseCounts) Add(status int, took time.Duration) {
	class := status / 100
	if class < 1 || class > 5 {
		class = 0
	}
	n.Classes[class].Add(1)
	n.Durations.Add(took)
}

// Counting reports whether anything is counted.
func (c *Compiler) Counting() bool { return c.Plan.Needs&NeedsCounts != 0 }

// Metric is a metric of a page.
type Metric struct{ Name, Help string }

// CountResponses returns the counts of a host or an upstream, as label says, and shows them in
// metrics. Those with the same name share them. It returns nil if nothing is counted.
func (c *Compiler) CountResponses(label, name string, total, durations Metric) *ResponseCounts {
	if !c.Counting() {
		return nil
	}
	c.Use(NeedsStartTime)
	return SharedCounts(c, label+" "+name, func(n *ResponseCounts, e *exposition.Page) {
		for i, class := range [...]string{"none", "1xx", "2xx", "3xx", "4xx", "5xx"} {
			e.Add(total.Name, exposition.Counter, total.Help, n.Classes[i].Load(), label, name, "class", class)
		}
		e.AddHistogram(durations.Name, durations.Help, &n.Durations, label, name)
	})
}

type countsKey string

// SharedCounts returns counts that plans share, by a key, and shows them in metrics.
func SharedCounts[T any](c *Compiler, key string, measure func(n *T, e *exposition.Page)) *T {
	return Shared(c, countsKey(key), func() *T {
		n, _ := AcquireForPlan(c, &c.State.sharedCounts, key, func() (*T, error) { return new(T), nil }, func(*T) {})
		c.Plan.Measures = append(c.Plan.Measures, func(e *exposition.Page) { measure(n, e) })
		return n
	})
}

// end counts an exchange at its end.
func (n *counts) end(x *Exchange) {
	n.InFlight.Add(-1)
	if x.Response.hijacked {
		n.Hijacked.Add(-1)
	}
	if x.Host == nil || x.Host.counts == nil {
		return
	}
	status := x.ResponseStatus()
	if x.LoggedStatus != 0 {
		status = 0
	}
	x.Host.counts.Add(status, time.Since(x.StartTime))
}
