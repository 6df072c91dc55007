package analyze

import (
	"fmt"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
)

// Why is a cause of why a contender costs more than the control: the memory that its application
// allocates. A counter-experiment tests it.
type Why struct {
	*Row
	Sentence string // with the figures, for a reader
}

const (
	// bigAllocation is a cause, in bytes per request beyond the control's: a buffer, and not the few
	// objects of a request.
	bigAllocation = 16 << 10
	// collectorShown is a cause: a collector's share of the CPU time, beyond the control's.
	collectorShown = 0.05
)

// why returns the causes of a table's differences.
func why(run *sample.Run, t *Table) (all []Why) {
	control := t.Row(sample.Control)
	if control == nil || control.Trials == 0 || t.Procs > 0 { // the trace includes time for which threads wait
		return nil
	}
	for i := range t.Rows {
		row := &t.Rows[i]
		if row.Trials == 0 || row.Kind == sample.Control || row.Kind == sample.Ceiling || row.Kind.IsCopy() {
			continue
		}
		if text := memory(run, t, row, control); text != "" {
			all = append(all, Why{row, text})
		}
	}
	return all
}

// memory describes what the memory of a contender's application costs, or returns "".
func memory(run *sample.Run, t *Table, row, control *Row) string {
	extra := row.WeightUs.Mid - control.WeightUs.Mid
	if extra <= 0 || row.Finding == stat.Same {
		return ""
	}
	bytes, share, us := collected(run, t, row)
	ofControl, controlShare, controlUs := collected(run, t, control)
	what := "the application's garbage collector"
	switch {
	case bytes-ofControl >= bigAllocation:
		what = fmt.Sprintf("the application allocates about %.0f KB per request (%s: %.1f KB), and its garbage collector",
			bytes/1e3, control.Title, ofControl/1e3)
	case share-controlShare < collectorShown || us <= controlUs:
		return ""
	}
	return fmt.Sprintf("%s uses %.0f %% of its CPU time (%s: %.0f %%): about %.1f µs of the %.1f µs difference",
		what, 100*share, control.Title, 100*controlShare, max(0, us-controlUs), extra)
}

// collected returns the bytes that a Go application allocates for a request, and its collector's
// CPU time, as a share of the application's and in microseconds per request; 0 if the collector was
// not traced. The share is taken within the traced trial.
func collected(run *sample.Run, t *Table, row *Row) (bytes, share, us float64) {
	for i := range run.Records {
		r := &run.Records[i]
		if r.Contender != row.Name || r.Condition != t.Condition || r.Failure != "" || r.Attribution == nil ||
			r.Attribution.Collector == nil {
			continue
		}
		c, perSecond := r.Attribution.Collector, r.Load.PerSecond()
		used := (r.UserUs(contender.RoleApplication) + r.SysUs(contender.RoleApplication)) / 1e6 * perSecond
		share = min(1, c.CPUPerSecond/used)
		return c.BytesPerSecond / perSecond, share, share * partOf(row, contender.RoleApplication).Us()
	}
	return 0, 0, 0
}

func partOf(row *Row, role string) (part Part) {
	for _, p := range row.Parts {
		if p.Role == role {
			part = p
		}
	}
	return part
}

// callsPerRequest returns a role's system calls by name, or nil if they were not counted.
func callsPerRequest(r *sample.Record, role string) map[string]float64 {
	if r == nil || r.Attribution.Calls == nil {
		return nil
	}
	calls := make(map[string]float64)
	for name, n := range r.Attribution.Calls[role] {
		calls[name] = over(r, n)
	}
	return calls
}
