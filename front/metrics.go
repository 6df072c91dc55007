package front

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/accesslog"
)

// exposition is a page in Prometheus' text format 0.0.4. Labels come from the Config and never from
// clients, so that their number is bounded.
type exposition struct {
	families []*family
	byName   map[string]*family
}

// family holds the samples of a metric.
type family struct {
	name, help string
	kind       metricKind
	samples    []byte
}

type metricKind string

const (
	counter metricKind = "counter"
	gauge   metricKind = "gauge"
)

// add adds a sample. labels are pairs of name and value.
func (e *exposition) add(name string, kind metricKind, help string, value int64, labels ...string) {
	e.family(name, kind, help).addSample(name, strconv.FormatInt(value, 10), labels)
}

// family returns the family of a name, and makes it if needed.
func (e *exposition) family(name string, kind metricKind, help string) *family {
	f := e.byName[name]
	if f == nil {
		f = &family{name: name, help: help, kind: kind}
		if e.byName == nil {
			e.byName = make(map[string]*family)
		}
		e.byName[name] = f
		e.families = append(e.families, f)
	}
	return f
}

// addSample adds a line.
func (f *family) addSample(name, value string, labels []string) {
	f.samples = append(f.samples, name...)
	for i := 0; i+1 < len(labels); i += 2 {
		separator := byte(',')
		if i == 0 {
			separator = '{'
		}
		f.samples = append(append(append(f.samples, separator), labels[i]...), `="`...)
		f.samples = append(append(f.samples, escapeLabel(labels[i+1])...), '"')
	}
	if len(labels) > 1 {
		f.samples = append(f.samples, '}')
	}
	f.samples = append(append(append(f.samples, ' '), value...), '\n')
}

func escapeLabel(s string) string {
	return strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(s, "\ufffd"))
}

// page returns the text, metric by metric.
func (e *exposition) page() []byte {
	var b []byte
	for _, f := range e.families {
		b = append(b, "# HELP "+f.name+" "+f.help+"\n# TYPE "+f.name+" "+string(f.kind)+"\n"...)
		b = append(b, f.samples...)
	}
	return b
}

// metricsContent is the content of a location with Metrics.
type metricsContent struct {
	plan  *plan
	state *state
}

// metrics compiles it.
func (c *compiler) metrics(*conf.Location) (content, error) {
	return metricsContent{c.plan, c.state}, nil
}

// serve implements content.
func (m metricsContent) serve(x *exchange) outcome {
	var e exposition
	n := &m.state.counts
	accepted, open, _ := m.plan.connections()
	e.add("tare_requests_total", counter, "Requests.", n.requests.Load())
	e.add("tare_requests_in_flight", gauge, "Requests in progress.", n.inFlight.Load())
	e.add("tare_connections_accepted_total", counter, "Accepted connections, if the server reports them.", accepted)
	e.add("tare_connections", gauge, "Open connections, if the server reports them.", open)
	e.add("tare_compressing", gauge, "Responses that are being compressed.", m.state.compressing.Load()+
		m.state.heavyCompressing.Load())
	m.addHosts(&e)
	logs := inUse[*accesslog.File](&m.state.logs)
	for _, path := range slices.Sorted(maps.Keys(logs)) {
		e.add("tare_log_lines_lost_total", counter, "Lost lines of logs.", logs[path].Lost(), "log", path)
	}
	m.addUpstreams(&e)
	m.addCaches(&e)
	for _, measure := range m.plan.measures {
		measure(&e)
	}
	return x.sendPage("text/plain; version=0.0.4; charset=utf-8", e.page())
}

func (m metricsContent) addHosts(e *exposition) {
	for _, name := range m.plan.countedHosts {
		for i, class := range statusClasses() {
			e.add("tare_responses_total", counter, "Responses, by host and class of the status.",
				name.counts.classes[i].Load(), "host", name.name, "class", class)
		}
		e.addHistogram("tare_request_duration_seconds", "Durations of requests, up to the end of the response.",
			&name.counts.durations, "host", name.name)
	}
}

// statusClasses returns the names of classes of statuses. The first one is for no response.
func statusClasses() [6]string { return [...]string{"none", "1xx", "2xx", "3xx", "4xx", "5xx"} }

// addUpstreams adds the servers of upstreams, one for each address of a name.
func (m metricsContent) addUpstreams(e *exposition) {
	for _, name := range slices.Sorted(maps.Keys(m.plan.groups)) {
		if n := m.plan.groups[name].counts; n != nil {
			for i, class := range statusClasses() {
				e.add("tare_upstream_responses_total", counter,
					"Responses of an upstream, by class of the status; none are attempts without a response.",
					n.classes[i].Load(), "upstream", name, "class", class)
			}
			e.addHistogram("tare_upstream_header_seconds", "Times until the head of an upstream's response arrived.",
				&n.durations, "upstream", name)
		}
		shown := make(map[string]bool)
		for _, s := range m.plan.groups[name].servers.Peers.Status() {
			if shown[s.Addr] { // a server may be listed twice
				continue
			}
			shown[s.Addr] = true
			up := int64(1)
			if s.Down || s.Resting || s.Failed {
				up = 0
			}
			e.add("tare_upstream_server_up", gauge,
				"Whether a server gets requests: 0 if it is down, has failed recently, or fails its checks.", up, "upstream", name,
				"server", s.Addr)
			e.add("tare_upstream_server_requests", gauge, "Requests in progress on a server.", int64(s.Conns),
				"upstream", name, "server", s.Addr)
			if s.Checks > 0 {
				e.add("tare_upstream_server_checks_total", counter, "Active health checks of a server.", s.Checks,
					"upstream", name, "server", s.Addr)
				e.add("tare_upstream_server_failed_checks_total", counter, "Active health checks that have failed.",
					s.FailedChecks, "upstream", name, "server", s.Addr)
			}
		}
	}
}

func (m metricsContent) addCaches(e *exposition) {
	for _, name := range slices.Sorted(maps.Keys(m.plan.caches)) {
		responses, memory, disk := m.plan.caches[name].Len()
		e.add("tare_cache_responses", gauge, "Responses in a cache.", responses, "cache", name)
		e.add("tare_cache_memory_bytes", gauge, "Memory that a cache uses.", memory, "cache", name)
		e.add("tare_cache_disk_bytes", gauge, "Disk space that a cache uses.", disk, "cache", name)
		for i, state := range cacheStates() {
			if n := m.plan.cacheCounts[name]; n != nil {
				e.add("tare_cache_requests_total", counter, "Requests that used a cache, by the cache's result.",
					n.states[i].Load(),
					"cache", name, "state", string(state))
			}
		}
	}
}
