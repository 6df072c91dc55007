package bench_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/lab/stat"
)

// The libraries.
const (
	ours     = "tare"
	netHTTP  = "nethttp"
	fastHTTP = "fasthttp"
)

// Metrics, with their units.
const (
	p50    = "p50-µs" // of latency
	p99    = "p99-µs"
	spent  = "ns/req" // time of all processors
	memory = "B/conn" // memory in use of a client
)

// bound is a target: a metric, the rival, and limits.
type bound struct {
	of, than     string  // metric and rival; without a rival, the limits are for the figure itself
	require, aim float64 // limits of the ratio; 0 means no limit
	least        bool    // the limits are lower ones
}

// scenario is a case.
type scenario struct {
	name    string
	measure func(f *field, server string) (turn, error) // measures one turn in its own process
	bounds  []bound
	rounds  int   // 0 is the default
	large   bool  // needs so many descriptors that no other case can run beside it
	group   group // to which it belongs, or zero
}

// group is a target of several cases together: the number of cases in which tare's figure is at
// most times that of fasthttp.
type group struct {
	name         string
	cases        int
	times        float64
	require, aim int
}

func (s scenario) servers() []string {
	servers := []string{ours}
	for _, b := range s.bounds {
		if b.than != "" && !slices.Contains(servers, b.than) {
			servers = append(servers, b.than)
		}
	}
	return servers
}

const (
	// even is the required ratio if tare must not be worse. better is how far the aim is from it:
	// far enough to count as a difference.
	even   = 1
	better = stat.SameWithin
)

// scenarios returns all cases.
func scenarios() []scenario { return slices.Concat(inMemory(), clients()) }

// inMemory returns the workloads of fasthttp's own benchmarks. It publishes the figures of eight.
func inMemory() []scenario {
	var all []scenario
	add := func(procs int, method string, requests, clients int, eight bool) {
		s := scenario{name: fmt.Sprintf("inmemory-p%d-%s-%d", procs, strings.ToLower(method), requests)}
		if clients > runtime.NumCPU() {
			s.name += "-10k-clients"
		}
		if eight {
			s.group = group{name: fmt.Sprintf("inmemory-p%d", procs), cases: 8, times: 1, require: 4, aim: 8}
		}
		s.measure = workload{procs, method, requests, clients}.measure
		s.bounds = []bound{{of: spent, than: fastHTTP, aim: 1}}
		if procs == 1 {
			s.bounds = append(s.bounds, bound{of: spent, than: netHTTP, require: 0.25})
		}
		all = append(all, s)
	}
	for _, procs := range []int{1, 2} {
		for _, n := range []int{1, 2, 10, 10_000} {
			add(procs, "GET", n, runtime.NumCPU(), true)
			add(procs, "POST", n, runtime.NumCPU(), false)
		}
		for _, n := range []int{1, 2, 10, 100} {
			add(procs, "GET", n, 10_000, true)
		}
	}
	return all
}
