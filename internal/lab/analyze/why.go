package analyze

import (
	"slices"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/explain"
	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
	"github.com/tarehq/tare/load/hist"
)

// Why is the explanation of one contender's difference from the control.
type Why struct {
	*Row
	Findings []explain.Finding // largest share first
}

// shownFindings is the largest number of causes that are reported for a contender.
const shownFindings = 3

// why applies the rules to each contender of a table.
func why(run *sample.Run, t *Table) (all []Why) {
	control := t.Row(sample.Control)
	if control == nil || control.Trials == 0 {
		return nil
	}
	of := Evidence(run, control.Name, t.Condition)
	var twin *explain.Evidence
	if row := t.Row(sample.Twin); row != nil && row.Trials > 0 {
		e := Evidence(run, row.Name, t.Condition)
		twin = &e
	}
	for i := range t.Rows {
		row := &t.Rows[i]
		if row.Trials == 0 || row.Kind == sample.Control || row.Kind == sample.Ceiling || row.Kind == sample.Loopback {
			continue
		}
		c := explain.Case{Of: Evidence(run, row.Name, t.Condition), Control: of, Twin: twin,
			HasDifference: row.Finding == stat.Less || row.Finding == stat.More}
		if row.Kind == sample.Twin {
			c.Twin, c.IsTwin = nil, true
		}
		if found := explain.Explain(c); len(found) > 0 {
			all = append(all, Why{row, found[:min(shownFindings, len(found))]})
		}
	}
	return all
}

// Evidence returns what the records of a run show of a contender under a condition, for package
// explain.
func Evidence(run *sample.Run, name string, c sample.Condition) explain.Evidence {
	e := explain.Evidence{Title: name, Cores: c.Cores}
	if c.Cores == 0 {
		e.Cores = run.Environment.Cores
	}
	for _, entrant := range run.Entrants {
		if entrant.Name == name {
			e.Title, e.Protocol, e.Interpreter = entrant.Title, entrant.Protocol, interpreter(entrant.Runtime)
		}
	}
	timed, counted := recordsOf(run, name, c)
	control, twin := run.Control(), run.OfKind(sample.Twin)
	if control != nil && twin != nil && name == twin.Name { // system calls of the twin are not counted
		_, counted = recordsOf(run, control.Name, c)
	}
	if len(timed) == 0 {
		return e
	}
	of := func(f func(*sample.Record) float64) float64 { return median(timed, f) }
	e.Parts = evidenceParts(timed, counted)
	e.PerSecond = of(func(r *sample.Record) float64 { return r.Load.PerSecond() })
	e.MeanUs = of(func(r *sample.Record) float64 { return us(r.Load.Latency.Mean()) })
	e.DelayedShare = of(func(r *sample.Record) float64 { return shareOf(r.Load.Latency, explain.DelayedACKs()) })
	e.Connects = of(func(r *sample.Record) float64 { return over(r, r.Load.Connects) })
	e.Demand = of(demand)
	e.BackendConnects = backendConnects(timed, counted)
	return e
}

// interpreter returns the name of a runtime that runs one thread at a time, or "".
func interpreter(runtime string) string {
	if runtime == "Python" || runtime == "Ruby" {
		return runtime
	}
	return ""
}

// recordsOf returns the timed trials of a contender, and those that the kernel counted.
func recordsOf(run *sample.Run, name string, c sample.Condition) (timed, counted []*sample.Record) {
	for i := range run.Records {
		r := &run.Records[i]
		switch {
		case r.Contender != name || r.Condition != c || r.Failure != "" || r.Load == nil:
		case r.Timed():
			timed = append(timed, r)
		default:
			counted = append(counted, r)
		}
	}
	return timed, counted
}

// shareOf returns the share of durations in a band.
func shareOf(h *hist.Histogram, in explain.Band) float64 {
	if h == nil || us(h.Max()) < in.FromUs { // true of nearly all, and iterating is slow
		return 0
	}
	var of int64
	for d, times := range h.All() {
		if in.Contains(us(d)) {
			of += times
		}
	}
	return float64(of) / float64(max(1, h.Count()))
}

// demand returns how many processors the servers' threads were running on or ready for.
func demand(r *sample.Record) float64 {
	ready := r.Sum("", func(c proc.Cost) float64 { return float64(c.CPU() + c.Waited) })
	return ready / 1e9 / r.Load.Seconds
}

// backendConnects returns the connections per request that a front opened to the application. If
// system calls were not counted, it uses those that the machine accepted besides the generator's.
func backendConnects(timed, counted []*sample.Record) float64 {
	for _, r := range counted {
		if r.Attribution.Calls == nil {
			continue
		}
		connects := 0.0
		for _, role := range sample.Roles() {
			if role != contender.RoleApplication {
				connects += over(r, r.Attribution.Calls[role]["connect"])
			}
		}
		return connects
	}
	return median(timed, func(r *sample.Record) float64 { return over(r, r.OtherAccepts()) })
}

// evidenceParts returns the roles of a contender.
func evidenceParts(timed, counted []*sample.Record) (parts []explain.Part) {
	for _, role := range sample.Roles() {
		if len(timed[0].Costs[role]) == 0 {
			continue
		}
		used := usageRow(nil, role, timed, nil)
		parts = append(parts, explain.Part{
			Role: role, UserUs: used.UserUs, SysUs: used.SysUs,
			Voluntary: used.Voluntary, Involuntary: used.Involuntary,
			PageFaults: perRequest(timed, role, recycledFaults),
			FileBytes:  perRequest(timed, role, func(c proc.Cost) float64 { return float64(c.FileBytes) }),
			Calls:      callsPerRequest(counted, role),
		})
	}
	if i := slices.IndexFunc(parts, func(p explain.Part) bool { return p.Role == contender.RoleApplication }); i >= 0 {
		addCollector(&parts[i], counted)
	}
	return parts
}

// recycledFaults returns the page faults beyond those for pages by which a process grew. A process
// grows once, however many requests it serves.
func recycledFaults(c proc.Cost) float64 {
	return float64(c.MinorFaults - min(c.GrewPages, c.MinorFaults))
}

// addCollector adds the statistics of a Go program's garbage collector. Its share of CPU time is
// taken within the counted trial.
func addCollector(p *explain.Part, counted []*sample.Record) {
	for _, r := range counted {
		c := r.Attribution.Collector
		if c == nil {
			continue
		}
		p.AllocBytes = c.BytesPerSecond / r.Load.PerSecond()
		us := r.UserUs(contender.RoleApplication) + r.SysUs(contender.RoleApplication)
		p.GCShare = min(1, c.CPUPerSecond/(us/1e6*r.Load.PerSecond()))
		return
	}
}

// callsPerRequest returns a role's system calls by name, or nil if they were not counted.
func callsPerRequest(counted []*sample.Record, role string) map[string]float64 {
	for _, r := range counted {
		if r.Attribution.Calls == nil {
			continue
		}
		calls := make(map[string]float64)
		for name, n := range r.Attribution.Calls[role] {
			calls[name] = over(r, n)
		}
		return calls
	}
	return nil
}
