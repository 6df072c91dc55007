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

// metricsModule shows metrics for Prometheus.
func metricsModule() module {
	return module{location: func(c *compiler, loc *location, from *conf.Location) error {
		if from.Metrics {
			loc.content = metricsContent{c.plan, c.state}
		}
		return nil
	}}
}

// explain implements content.
func (metricsContent) explain(x *exchange, e *explanation) outcome {
	return e.respond(x, "the page of metrics")
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
	m.addHosts(&e)
	logs := inUse[*accesslog.File](&m.state.logs)
	for _, path := range slices.Sorted(maps.Keys(logs)) {
		e.add("tare_log_lines_lost_total", counter, "Lost lines of logs.", logs[path].Lost(), "log", path)
	}
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
