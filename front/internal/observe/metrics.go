package observe

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/exposition"
	"github.com/tarehq/tare/front/internal/spool"
)

// MetricsModule shows metrics for Prometheus.
func MetricsModule() core.Module {
	return core.Module{Location: func(_ *core.Compiler, loc *core.Location, from *conf.Location) {
		if from.Metrics {
			loc.Content = core.Page{Name: "the page of metrics", Respond: sendMetrics}
		}
	}}
}

func sendMetrics(x *core.Exchange) core.Outcome {
	var e exposition.Page
	n := &x.Plan.State.Counts
	accepted, open, _ := connections(x.Plan)
	e.Add("tare_requests_total", exposition.Counter, "Requests.", n.Requests.Load())
	e.Add("tare_requests_in_flight", exposition.Gauge, "Requests in progress.", n.InFlight.Load())
	e.Add("tare_connections_accepted_total", exposition.Counter, "Accepted connections, if the server reports them.",
		accepted)
	e.Add("tare_connections", exposition.Gauge, "Open connections, if the server reports them.", open)
	logs := core.InUse[string, *spool.Spool](&x.Plan.State.Logs)
	for _, path := range slices.Sorted(maps.Keys(logs)) {
		e.Add("tare_log_lines_lost_total", exposition.Counter, "Lost lines of logs.", logs[path].Lost(), "log", path)
	}
	for _, measure := range x.Plan.Measures {
		measure(&e)
	}
	return x.SendPage(http.StatusOK, "text/plain; version=0.0.4; charset=utf-8", e.Text())
}

func connections(p *core.Plan) (accepted, open, reading int64) {
	if count := p.Options.CountConns; count != nil {
		accepted, open, reading = count()
	}
	n := &p.State.Counts
	return accepted + n.Accepted.Load(), open + n.Conns.Load(), reading
}

// connectionNumbers are the numbers of nginx's status page: of connections that were accepted, of
// those that are open, and of open ones on which a part of a head has arrived, a request is in
// progress, or neither.
type connectionNumbers struct{ accepted, active, reading, writing, waiting int64 }

// numbersOf returns the numbers. They are not of the same instant, but add up. If the
// server does not report connections, requests count as connections.
func numbersOf(p *core.Plan) (n connectionNumbers) {
	counts := &p.State.Counts
	n.accepted, n.active, n.reading = connections(p)
	if n.accepted == 0 {
		n.accepted = counts.Requests.Load()
	}
	n.writing = counts.InFlight.Load()
	n.active = max(n.active+counts.Hijacked.Load(), n.reading+n.writing)
	n.waiting = n.active - n.reading - n.writing
	return n
}

// connectionsVariable returns a variable with one of the numbers.
func connectionsVariable(number func(connectionNumbers) int64) core.KnownVariable {
	return core.KnownVariable{Needs: core.NeedsCounts, Get: func(x *core.Exchange) string {
		return strconv.FormatInt(number(numbersOf(x.Plan)), 10)
	}}
}

// StatusModule shows numbers of connections and requests: stub_status.
func StatusModule() core.Module {
	return core.Module{
		Location: func(_ *core.Compiler, loc *core.Location, from *conf.Location) {
			if from.Status {
				loc.Content = core.Page{Name: "the page of stub_status", Respond: sendStatus}
			}
		},
		Variables: func(core.Slot) map[string]core.KnownVariable {
			return map[string]core.KnownVariable{
				"connections_active":  connectionsVariable(func(n connectionNumbers) int64 { return n.active }),
				"connections_reading": connectionsVariable(func(n connectionNumbers) int64 { return n.reading }),
				"connections_writing": connectionsVariable(func(n connectionNumbers) int64 { return n.writing }),
				"connections_waiting": connectionsVariable(func(n connectionNumbers) int64 { return n.waiting }),
			}
		},
	}
}

func sendStatus(x *core.Exchange) core.Outcome {
	requests := x.Plan.State.Counts.Requests.Load()
	n := numbersOf(x.Plan)
	return x.SendPage(http.StatusOK, "text/plain", fmt.Appendf(nil,
		"Active connections: %d \nserver accepts handled requests\n %d %d %d \nReading: %d Writing: %d Waiting: %d \n",
		n.active, n.accepted, n.accepted, requests, n.reading, n.writing, n.waiting))
}
