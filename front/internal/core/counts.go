package core

import (
	"slices"
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
func (c *Compiler) Counting() bool { return c.Plan.counts != nil }

// hostCounts returns the counts of a host's name, nil if nothing is counted. Hosts with the same
// name share them.
func (c *Compiler) hostCounts(name string) *ResponseCounts {
	if !c.Counting() {
		return nil
	}
	c.Use(NeedsStartTime)
	n := SharedCounts[ResponseCounts](c, "host "+name)
	if !slices.ContainsFunc(c.Plan.CountedHosts, func(h countedHost) bool { return h.Counts == n }) {
		c.Plan.CountedHosts = append(c.Plan.CountedHosts, countedHost{name, n})
	}
	return n
}

// countedHost is a host's name with its counts.
type countedHost struct {
	Name   string
	Counts *ResponseCounts
}

// SharedCounts returns counts that plans share.
func SharedCounts[T any](c *Compiler, key string) *T {
	n, _ := AcquireForPlan(c, &c.State.sharedCounts, key, func() (*T, error) { return new(T), nil }, func(*T) {})
	return n
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

// StatusClasses returns the names of classes of statuses. The first one is for no response.
func StatusClasses() [6]string { return [...]string{"none", "1xx", "2xx", "3xx", "4xx", "5xx"} }
