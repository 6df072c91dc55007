package report

import (
	"fmt"
	"time"

	"github.com/tarehq/tare/load"
)

// Agents returns the figures of each process of a joined run.
func (r *Run) Agents() Table {
	all := Table{
		{"agent", "connections", "requests/s", "errors", "p50", "p99", "busy", "sent late", "began after", ""},
	}
	for i := range r.Parts {
		p := &r.Parts[i]
		var late time.Duration // one request in a hundred was sent later
		if p.Generator.Lag != nil {
			late = p.Generator.Lag.Quantile(0.99)
		}
		state := ""
		if p.Lost != "" {
			state = "lost"
		}
		all = append(all, []string{
			p.Name, Count(float64(p.Connections)), Count(float64(p.Requests) / max(p.Seconds, 1e-9)),
			fmt.Sprint(p.Errors.Total()), Duration(p.Latency.P50), Duration(p.Latency.P99),
			fmt.Sprintf("%.0f%%", 100*p.Generator.Busy), Duration(late),
			fmt.Sprintf("%s ±%s", Duration(p.Began), Duration(p.ClockError)), state,
		})
	}
	return all
}

// minTail is the shortest last second, in seconds, that is drawn for an agent: the rate of a
// shorter one says nothing.
const minTail = 0.1

// AgentPlots returns the plots of all agents.
func (r *Run) AgentPlots() []Plots {
	runs := make([]*Run, len(r.Parts))
	for i := range r.Parts {
		p := &r.Parts[i]
		timeline, seconds := p.Timeline, p.Seconds
		if n := len(timeline) - 1; n > 0 && seconds-float64(n) < minTail {
			timeline, seconds = timeline[:n], float64(n)
		}
		runs[i] = &Run{Result: load.Result{Timeline: timeline, Seconds: seconds}}
	}
	all := plots(r.Seconds, runs...)
	for i := range all {
		all[i].Name = r.Parts[i].Name
	}
	return all
}
