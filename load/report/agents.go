package report

import (
	"fmt"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tarehq/tare/internal/page"
	"github.com/tarehq/tare/load"
)

// Agent is the view of one process of a joined run.
type Agent struct{ Part *load.PartResult }

// Agents returns the processes of a joined run; nil for a run of one process.
func (r *Run) Agents() (all []Agent) {
	for i := range r.Parts {
		all = append(all, Agent{&r.Parts[i]})
	}
	return all
}

// PerSecond returns the agent's rate.
func (a Agent) PerSecond() float64 { return float64(a.Part.Requests) / max(a.Part.Seconds, 1e-9) }

// Late returns how late the agent sent one request in a hundred; 0 in a closed loop.
func (a Agent) Late() time.Duration {
	if lag := a.Part.Generator.Lag; lag != nil {
		return lag.Quantile(0.99)
	}
	return 0
}

// State returns whether the agent delivered its result.
func (a Agent) State() string {
	if a.Part.Lost != "" {
		return "lost"
	}
	return ""
}

// Began returns when the agent began, with the error of the clocks' comparison.
func (a Agent) Began() string {
	return fmt.Sprintf("%s ±%s", Duration(a.Part.Began), Duration(a.Part.ClockError))
}

func (r *Run) writeAgents(b *strings.Builder) {
	if len(r.Parts) == 0 {
		return
	}
	fmt.Fprintln(b)
	w := newTable(b, tabwriter.AlignRight)
	fmt.Fprintf(w, "agent\tconnections\trequests/s\terrors\tp50\tp99\tbusy\tsent late\tbegan after\t\t\n")
	for _, a := range r.Agents() {
		p := a.Part
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%s\t%s\t%.0f%%\t%s\t%s\t%s\t\n", p.Name, p.Connections, Count(a.PerSecond()),
			p.Errors.Total(), Duration(p.Latency.P50), Duration(p.Latency.P99), 100*p.Generator.Busy,
			Duration(a.Late()), a.Began(), a.State())
	}
	_ = w.Flush()
}

// AgentPlots are the plots of one agent. Their axes are the same for all agents.
type AgentPlots struct {
	Name          string
	Rate, Latency *page.Drawing // nil if there is too little to draw
}

// minTail is the shortest last second, in seconds, that is drawn for an agent: the rate of a
// shorter one says nothing.
const minTail = 0.1

// AgentPlots returns the plots of all agents.
func (r *Run) AgentPlots() (all []AgentPlots) {
	runs := make([]*Run, len(r.Parts))
	most, lo, hi := 0.0, time.Duration(math.MaxInt64), time.Duration(0)
	for i := range r.Parts {
		p := &r.Parts[i]
		timeline, seconds := p.Timeline, p.Seconds
		if n := len(timeline) - 1; n > 0 && seconds-float64(n) < minTail {
			timeline, seconds = timeline[:n], float64(n)
		}
		runs[i] = &Run{Result: load.Result{Timeline: timeline, Seconds: seconds}}
		_, top := runs[i].rateRange()
		most = max(most, top)
		least, longest := runs[i].latencyRange()
		lo, hi = min(lo, least), max(hi, longest)
	}
	for i, run := range runs {
		all = append(all, AgentPlots{r.Parts[i].Name, run.ratePlot(r.Seconds, most),
			run.latencyPlot(r.Seconds, lo, hi)})
	}
	return all
}
