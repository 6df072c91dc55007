package bench_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/lab/stat"
)

// The servers.
const (
	ours     = "tare"
	netHTTP  = "nethttp"
	fastHTTP = "fasthttp"
	nginx    = "nginx"
)

// Metrics, with their units.
const (
	cpu       = "cpu-µs" // user and system time of the server, for each request
	rate      = "req/s"
	sent      = "B/cpu-s" // bytes received by clients per second of the server's CPU time
	p50       = "p50-µs"  // of latency
	p99       = "p99-µs"
	spent     = "ns/req"        // time of all processors
	memory    = "B/conn"        // resident memory beyond the idle process's; for a client, memory in use
	resting   = "cpu-%"         // CPU use without requests
	appCPU    = "app-cpu-µs"    // of the application behind nginx alone, for each request
	calls     = "calls/req"     // system calls of the application
	transfers = "transfers/req" // system calls that read or write
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
	subject string                                      // the server that the targets are about; "" is tare
	scene   scene                                       // what to measure, unless measure is set
	measure func(f *field, server string) (turn, error) // measures one turn of a server in its own process
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

// mine returns the server that the targets are about.
func (s scenario) mine() string {
	if s.subject == "" {
		return ours
	}
	return s.subject
}

func (s scenario) servers() []string {
	servers := []string{s.mine()}
	for _, b := range s.bounds {
		if b.than != "" && !slices.Contains(servers, b.than) {
			servers = append(servers, b.than)
		}
	}
	return servers
}

// browser returns the fields that a browser sends in addition to Host: 14.
func browser() []string {
	return []string{
		"Connection: keep-alive", "Cache-Control: max-age=0",
		`sec-ch-ua: "Chromium";v="140", "Not=A?Brand";v="24"`, "sec-ch-ua-mobile: ?0", `sec-ch-ua-platform: "Linux"`,
		"Upgrade-Insecure-Requests: 1",
		"User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36",
		"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8",
		"Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document",
		"Accept-Encoding: gzip, deflate, br, zstd", "Accept-Language: en-GB,en;q=0.9,de;q=0.8",
		"Cookie: session=6f1ed002ab5595859014ebf0951522d9; theme=dark; seen=1",
	}
}

const (
	crowd = 15_000 // connections of which most or all are idle

	// even is the required ratio if tare must not be worse. better is how far the aim is from it:
	// far enough to count as a difference.
	even   = 1
	better = stat.SameWithin
)

// scenarios returns all cases. If a case has cores, its server runs on that many processors and the
// generator on others. Otherwise they share all.
func scenarios() []scenario {
	hello := stream{path: "/hello", connections: 64}
	many := stream{path: "/hello", connections: 5000}
	fastBesideSlow := []stream{
		{name: "fast ", path: "/hello", connections: 58, rate: 8000},
		{name: "slow ", path: "/sleep", connections: 5}, // each receives about 190 responses a second
	}
	fastBesideHung := []stream{
		{name: "fast ", path: "/hello", connections: 16, rate: 3000},
		{name: "hung ", path: "/hangs", connections: 256, rate: 1000},
	}
	besideBackend := []stream{
		{name: "backend ", path: "/backend", connections: 32},
		{name: "fast ", path: "/hello", connections: 16, rate: 3000},
	}
	return slices.Concat([]scenario{
		{name: "hello-64", scene: scene{cores: 1, streams: []stream{hello}}, bounds: []bound{
			{of: cpu, than: nginx, require: 1.05, aim: 0.95}, {of: cpu, than: netHTTP, require: 0.55},
		}},
		{name: "hello-5000", scene: scene{cores: 1, streams: []stream{many}}, bounds: []bound{
			{of: cpu, than: nginx, require: 1.10, aim: 1}, {of: cpu, than: fastHTTP, require: 0.70},
			{of: cpu, than: netHTTP, require: 0.40},
		}},
		{name: "hello-64-paced",
			scene:  scene{cores: 1, streams: []stream{{path: "/hello", connections: 64, rate: 6000}}},
			bounds: []bound{{of: cpu, than: nginx, require: 1.3, aim: 1}, {of: cpu, than: netHTTP, require: 0.5}}},
		{name: "browser-64",
			scene:  scene{cores: 1, streams: []stream{{path: "/hello", connections: 64, header: browser()}}},
			bounds: []bound{{of: cpu, than: netHTTP, require: 0.6, aim: 0.5}}},
		{name: "tls-64", measure: overTLS, bounds: []bound{{of: cpu, than: netHTTP, require: 0.85, aim: 0.7}}},
		{name: "hello-64-all-cores", scene: scene{streams: []stream{hello}}, bounds: []bound{
			{of: rate, than: fastHTTP, require: even, aim: 1.3, least: true},
		}},
		{name: "hello-5000-all-cores", scene: scene{streams: []stream{many}}, bounds: []bound{
			{of: rate, than: fastHTTP, require: even, aim: 1.3, least: true},
		}},
		// On two processors, both sides would mostly wait for an idle one to wake.
		{name: "hello-1", scene: scene{streams: []stream{{path: "/hello", connections: 1}}}, bounds: []bound{
			{of: p50, than: netHTTP, require: even, aim: 0.5},
		}},
		{name: "sleep-256", scene: scene{streams: []stream{{path: "/sleep", connections: 256}}}, bounds: []bound{
			{of: rate, than: netHTTP, require: 0.95, least: true}, {of: rate, than: fastHTTP, aim: 1, least: true},
		}},
		// A 99th percentile varies threefold between rounds of equals.
		{name: "one-in-ten-sleeps", rounds: 45, scene: scene{cores: 1, streams: fastBesideSlow}, bounds: []bound{
			{of: "fast " + p99, than: netHTTP, require: even, aim: 0.5},
		}},
		{name: "trained-route-hangs", scene: scene{cores: 1, streams: fastBesideHung}, bounds: []bound{
			{of: "fast " + p99, than: netHTTP, require: 2, aim: even},
		}},
		{name: "backend", scene: scene{cores: 1, backend: true,
			streams: []stream{{path: "/backend", connections: 64}}}, bounds: []bound{
			{of: rate, than: netHTTP, require: even, aim: even + better, least: true},
			{of: p99, than: netHTTP, require: even, aim: even - better},
		}},
		{name: "backend-beside-fast", scene: scene{cores: 1, backend: true, streams: besideBackend}, bounds: []bound{
			{of: "backend " + rate, than: netHTTP, require: even, aim: even + better, least: true},
			{of: "backend " + p99, than: netHTTP, require: even, aim: even - better},
			{of: "fast " + p99, than: netHTTP, require: even, aim: even - better},
		}},
		{name: "idle-15000", measure: idle, rounds: 6, large: true, bounds: []bound{
			{of: memory, require: 700, aim: 400}, {of: memory, than: netHTTP}, {of: memory, than: fastHTTP},
			{of: resting, require: 0.1},
		}},
		{name: "anywhere-15000",
			scene: scene{cores: 1, streams: []stream{{path: "/hello", connections: crowd, rate: 2000}}},
			large: true, bounds: []bound{{of: p99, require: 5000, aim: 1000}}},
	}, shortLived(), idleOverTLS(), overHTTP2(), burning(), fastCGI(), files(), fronts(), inMemory(), clients())
}

// shortLived returns the cases of connections that end after a few requests.
func shortLived() []scenario {
	var all []scenario
	for _, requests := range []int{1, 10} {
		s := stream{path: "/hello", connections: 64, ends: requests}
		all = append(all, scenario{name: fmt.Sprintf("hello-64-ends-after-%d", requests),
			scene: scene{cores: 1, streams: []stream{s}}, bounds: []bound{
				{of: cpu, than: nginx, require: even}, {of: cpu, than: netHTTP, require: even - better},
				{of: cpu, than: fastHTTP, require: even},
			}})
	}
	return all
}

// burning returns the cases of handlers that compute. Busy connections can be on one shard by
// chance: then the connections between them, on other shards, are idle.
func burning() []scenario {
	var all []scenario
	for _, path := range []string{"/burn30", "/burn200"} {
		for _, where := range []string{"", "-one-shard"} {
			s := stream{path: path, connections: 64, oneShard: where != ""}
			all = append(all, scenario{name: path[1:] + where, scene: scene{streams: []stream{s}}, bounds: []bound{
				{of: rate, than: netHTTP, require: 0.95, aim: 1.1, least: true},
			}})
		}
	}
	return all
}

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
