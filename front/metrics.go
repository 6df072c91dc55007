package front

import (
	"maps"
	"slices"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/accesslog"
)

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
	logs := inUse[string, *accesslog.File](&m.state.logs)
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
