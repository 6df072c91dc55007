package observe

import (
	"maps"
	"slices"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/accesslog"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/exposition"
)

// metricsContent is the content of a location with Metrics.
type metricsContent struct {
	plan  *core.Plan
	state *core.State
}

// MetricsModule shows metrics for Prometheus.
func MetricsModule() core.Module {
	return core.Module{Location: func(c *core.Compiler, loc *core.Location, from *conf.Location) error {
		if from.Metrics {
			loc.Content = metricsContent{c.Plan, c.State}
		}
		return nil
	}}
}

func (metricsContent) Explain(x *core.Exchange, e *core.Explanation) core.Outcome {
	return e.Respond(x, "the page of metrics")
}

func (m metricsContent) Serve(x *core.Exchange) core.Outcome {
	var e exposition.Page
	n := &m.state.Counts
	accepted, open, _ := connections(m.plan)
	e.Add("tare_requests_total", exposition.Counter, "Requests.", n.Requests.Load())
	e.Add("tare_requests_in_flight", exposition.Gauge, "Requests in progress.", n.InFlight.Load())
	e.Add("tare_connections_accepted_total", exposition.Counter, "Accepted connections, if the server reports them.",
		accepted)
	e.Add("tare_connections", exposition.Gauge, "Open connections, if the server reports them.", open)
	m.addHosts(&e)
	logs := core.InUse[string, *accesslog.File](&m.state.Logs)
	for _, path := range slices.Sorted(maps.Keys(logs)) {
		e.Add("tare_log_lines_lost_total", exposition.Counter, "Lost lines of logs.", logs[path].Lost(), "log", path)
	}
	for _, measure := range m.plan.Measures {
		measure(&e)
	}
	return sendNumbers(x, "text/plain; version=0.0.4; charset=utf-8", e.Text())
}

func (m metricsContent) addHosts(e *exposition.Page) {
	for _, name := range m.plan.CountedHosts {
		for i, class := range core.StatusClasses() {
			e.Add("tare_responses_total", exposition.Counter, "Responses, by host and class of the status.",
				name.Counts.Classes[i].Load(), "host", name.Name, "class", class)
		}
		e.AddHistogram("tare_request_duration_seconds", "Durations of requests, up to the end of the response.",
			&name.Counts.Durations, "host", name.Name)
	}
}
