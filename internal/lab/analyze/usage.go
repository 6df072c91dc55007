package analyze

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/internal/lab/sample"
)

// Usage is the resources that requests use under one condition.
type Usage struct {
	CallNames []string // most frequent system calls
	Rows      []UsageRow
	Missing   []string // what was not counted, with the reason
}

// UsageRow is a part of a contender, or the generator while it loads the contender.
type UsageRow struct {
	Row *Row
	Part
}

// Part is what the processes of one role use per request. System calls were counted in a separate
// trial; the rest are medians of the timed trials.
type Part struct {
	Role                     string
	UserUs, SysUs            float64
	Voluntary, Involuntary   float64 // context switches
	MinorFaults, MajorFaults float64
	Calls                    map[string]float64 // nil if they were not counted
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

// shownCalls is the number of system calls that have a column.
const shownCalls = 10

// counted returns the record of the trial with the kernel's counts of a contender, or nil.
func counted(run *sample.Run, name string, c sample.Condition) *sample.Record {
	for i := range run.Records {
		r := &run.Records[i]
		if r.Contender == name && r.Condition == c && r.Attribution != nil && len(r.Attribution.Calls) > 0 {
			return r
		}
	}
	return nil
}

func usage(run *sample.Run, t *Table) (all Usage) {
	for i := range t.Rows {
		row := &t.Rows[i]
		if row.Trials == 0 || row.Kind == sample.Twin {
			continue
		}
		generator := parts(row.blocks, counted(run, row.Name, t.Condition), sample.RoleGenerator)
		for _, p := range slices.Concat(row.Parts, generator) {
			all.Rows = append(all.Rows, UsageRow{row, p})
		}
	}
	all.Missing = missing(run, t)
	all.CallNames = most(all.Rows)
	return all
}

// parts returns the parts of some roles that used something. count is the trial with the kernel's
// counts, or nil.
func parts(blocks []*sample.Record, count *sample.Record, roles ...string) (all []Part) {
	for _, role := range roles {
		p := Part{
			Role:        role,
			UserUs:      median(blocks, func(r *sample.Record) float64 { return r.UserUs(role) }),
			SysUs:       median(blocks, func(r *sample.Record) float64 { return r.SysUs(role) }),
			Voluntary:   perRequest(blocks, role, sample.Voluntary),
			Involuntary: perRequest(blocks, role, sample.Involuntary),
			MinorFaults: perRequest(blocks, role, func(c proc.Cost) float64 { return float64(c.MinorFaults) }),
			MajorFaults: perRequest(blocks, role, func(c proc.Cost) float64 { return float64(c.MajorFaults) }),
			Calls:       callsPerRequest(count, role),
		}
		if p.Us() > 0 || len(p.Calls) > 0 {
			all = append(all, p)
		}
	}
	return all
}

// missing returns what was not counted, each reason once.
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

// most returns the system calls that servers make most.
func most(rows []UsageRow) []string {
	made := make(map[string]float64)
	for _, r := range rows {
		for name, n := range r.Calls {
			if r.Role != sample.RoleGenerator && n >= LeastCalls {
				made[name] = max(made[name], n)
			}
		}
	}
	var names []string
	for name := range made {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(made[b], made[a]), cmp.Compare(a, b)) })
	return names[:min(shownCalls, len(names))]
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
