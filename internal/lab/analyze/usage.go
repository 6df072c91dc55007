package analyze

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/tarehq/tare/internal/lab/sample"
)

// Part is what the processes of one role use per request. System calls were counted in a separate
// trial; the rest are medians of the timed trials.
type Part struct {
	Role          string
	UserUs, SysUs float64
	Calls         map[string]float64 // nil if they were not counted
}

// Part returns the part of a role.
func (r *Row) Part(role string) Part {
	for _, p := range r.Parts {
		if p.Role == role {
			return p
		}
	}
	return Part{Role: role}
}

// Us returns user and system time together.
func (p Part) Us() float64 { return p.UserUs + p.SysUs }

// AllCalls returns the number of system calls per request.
func (p Part) AllCalls() (all float64) {
	for _, n := range p.Calls {
		all += n
	}
	return all
}

const (
	shownCalls = 10 // number of system calls that have a column
	// LeastCalls is the smallest number of calls per request that is reported.
	LeastCalls = 0.05
)

// counted returns the record of the trial with the kernel's counts of a contender, or nil.
func counted(run *sample.Run, name string, c sample.Condition) *sample.Record {
	return sample.First(run.Records, func(r *sample.Record) bool {
		return r.Contender == name && r.Condition == c && r.Failure == "" &&
			r.Attribution != nil && len(r.Attribution.Calls) > 0
	})
}

// parts returns the parts of the roles that used something. count is the trial with the kernel's
// counts, or nil.
func parts(blocks []*sample.Record, count *sample.Record) (all []Part) {
	for _, role := range sample.Roles() {
		p := Part{
			Role:   role,
			UserUs: median(blocks, func(r *sample.Record) float64 { return r.UserUs(role) }),
			SysUs:  median(blocks, func(r *sample.Record) float64 { return r.SysUs(role) }),
			Calls:  callsPerRequest(count, role),
		}
		if p.Us() > 0 || len(p.Calls) > 0 {
			all = append(all, p)
		}
	}
	return all
}

// missing returns the reasons why counts are missing, each once.
func missing(run *sample.Run, t *Table) (all []string) {
	for i := range run.Records {
		r := &run.Records[i]
		if r.Condition != t.Condition || r.Attribution == nil {
			continue
		}
		why := r.Attribution.Missing
		if r.Failure != "" {
			why = []string{fmt.Sprintf("nothing was counted of %s: %s", run.TitleOf(r.Contender), r.Failure)}
		}
		for _, w := range why {
			if !slices.Contains(all, w) {
				all = append(all, w)
			}
		}
	}
	return all
}

// CallNames returns the system calls that servers make most.
func (t *Table) CallNames() []string {
	made := make(map[string]float64)
	for _, row := range t.Measured() {
		for _, p := range row.Parts {
			for name, n := range p.Calls {
				if n >= LeastCalls && row.Kind != sample.Twin {
					made[name] = max(made[name], n)
				}
			}
		}
	}
	names := slices.Collect(maps.Keys(made))
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(made[b], made[a]), cmp.Compare(a, b)) })
	return names[:min(shownCalls, len(names))]
}

// callsPerRequest returns a role's system calls by name, or nil if they were not counted.
func callsPerRequest(r *sample.Record, role string) map[string]float64 {
	if r == nil {
		return nil
	}
	calls := make(map[string]float64)
	for name, n := range r.Attribution.Calls[role] {
		calls[name] = over(r, n)
	}
	return calls
}
