package report

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
	loadreport "github.com/tarehq/tare/load/report"
)

// RunComparison is the comparison of two runs.
type RunComparison struct {
	A, B *Report

	// Mismatches lists differences of the machines, conditions and questions, which make the runs
	// incomparable.
	Mismatches []string

	// Changes lists other differences: versions and settings.
	Changes []string

	Tables []RunComparisonTable // of conditions that both runs have
}

// RunComparisonTable has the results of two runs under one condition.
type RunComparisonTable struct {
	sample.Condition
	Rows []RunComparisonRow // of contenders that both measured, in A's order
}

// RunComparisonRow has one contender's results in two runs. Ratios to the control of each run can
// be compared where weights cannot.
type RunComparisonRow struct {
	Title            string
	WeightA, WeightB stat.Interval // in µs
	RatioA, RatioB   stat.Interval // of the weight to the control's
	RateA, RateB     stat.Interval // of the rate to the control's
}

// Agreement reports whether the two ratios of the weight agree. They do if their intervals overlap.
func (r *RunComparisonRow) Agreement() string {
	switch {
	case !r.RatioA.Known() || !r.RatioB.Known():
		return "unclear"
	case r.RatioB.Lo > r.RatioA.Hi:
		return "more in B"
	case r.RatioB.Hi < r.RatioA.Lo:
		return "less in B"
	}
	return "agree"
}

// Compare compares two runs.
func Compare(a, b *sample.Run) *RunComparison {
	two := &RunComparison{A: New(a), B: New(b)}
	two.Mismatches = mismatches(a, b)
	two.Changes = settingChanges(a, b)
	for i := range two.A.Tables {
		ta := &two.A.Tables[i]
		at := slices.IndexFunc(two.B.Tables, func(t Table) bool { return regime(t.Condition) == regime(ta.Condition) })
		if at < 0 {
			continue
		}
		both := RunComparisonTable{Condition: ta.Condition}
		for j := range ta.Rows {
			ra, rb := &ta.Rows[j], two.B.Tables[at].Named(ta.Rows[j].Name)
			if rb == nil || ra.Trials == 0 || rb.Trials == 0 {
				continue
			}
			both.Rows = append(both.Rows, RunComparisonRow{
				Title: ra.Title, WeightA: ra.WeightUs, WeightB: rb.WeightUs, RatioA: ra.Ratio, RatioB: rb.Ratio,
				RateA: ra.RateRatio, RateB: rb.RateRatio,
			})
		}
		if len(both.Rows) > 0 {
			two.Tables = append(two.Tables, both)
		}
	}
	return two
}

// differences collects the differences between A and B.
type differences []string

func (d *differences) add(what string, a, b any) {
	if a, b := fmt.Sprint(a), fmt.Sprint(b); a != b {
		*d = append(*d, fmt.Sprintf("%s: %s in A, %s in B", what, orNone(a), orNone(b)))
	}
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// mismatches returns the differences of machines, conditions and questions.
func mismatches(a, b *sample.Run) []string {
	var d differences
	d.add("experiment", a.Experiment, b.Experiment)
	d.add("control", controlTitle(a), controlTitle(b))
	d.add("processor", a.Environment.CPU, b.Environment.CPU)
	d.add("processors", a.Environment.Cores, b.Environment.Cores)
	d.add("memory", gigabytes(a.Environment.Memory), gigabytes(b.Environment.Memory))
	d.add("kernel", a.Environment.Kernel, b.Environment.Kernel)
	d.add("placement", a.Placement, b.Placement)
	d.add("conditions", conditionsText(a.Conditions), conditionsText(b.Conditions))
	d.add("warm-up", a.Warmup, b.Warmup)
	d.add("measured time of a trial", a.Measure, b.Measure)
	return d
}

func controlTitle(r *sample.Run) string {
	e := r.Control()
	if e == nil {
		return ""
	}
	return e.Title
}

// gigabytes rounds, because the memory that a kernel reserves changes at each start.
func gigabytes(bytes uint64) string { return fmt.Sprintf("%.0f GB", math.Round(float64(bytes)/1e9)) }

func conditionsText(all []sample.Condition) string {
	var texts []string
	for _, c := range all {
		if c.Saturated() {
			texts = append(texts, c.Text())
		}
	}
	return strings.Join(texts, "; ")
}

// regime returns a condition without the rate, which each run chooses: all fixed rates are equal.
func regime(c sample.Condition) sample.Condition {
	if !c.Saturated() {
		c.Rate = 1
	}
	return c
}

// rates lists the fixed rates of a run.
func rates(r *sample.Run) string {
	var texts []string
	for _, c := range r.Conditions {
		if !c.Saturated() {
			texts = append(texts, loadreport.Count(c.Rate)+" requests/s")
		}
	}
	return strings.Join(texts, ", ")
}

// settingChanges returns the differences of versions and settings.
func settingChanges(a, b *sample.Run) []string {
	var d differences
	d.add("tare", a.Tool, b.Tool)
	d.add("system", a.Environment.System, b.Environment.System)
	d.add("Go that built tare", a.Environment.Go, b.Environment.Go)
	d.add("blocks", a.Blocks, b.Blocks)
	d.add("fixed rate", rates(a), rates(b))
	d.add("open files allowed", a.Environment.Nofile, b.Environment.Nofile)
	names := maps.Clone(a.Environment.Sysctls)
	if names == nil {
		names = make(map[string]string)
	}
	maps.Copy(names, b.Environment.Sysctls)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		d.add(name, a.Environment.Sysctls[name], b.Environment.Sysctls[name])
	}
	for i := range a.Entrants {
		ea := &a.Entrants[i]
		eb := b.Entrant(ea.Name)
		if eb == nil {
			d = append(d, ea.Title+": only in A")
			continue
		}
		if ea.Kind.IsCopy() {
			continue // the same as the control's
		}
		d.add(ea.Title+": versions", strings.Join(ea.Versions, ", "), strings.Join(eb.Versions, ", "))
		d.add(ea.Title+": is", ea.About, eb.About)
		d.add(ea.Title+": left out", firstLine(ea.Absent), firstLine(eb.Absent))
		if ea.Response != nil && eb.Response != nil {
			d.add(ea.Title+": status", ea.Response.Status, eb.Response.Status)
			d.add(ea.Title+": bytes of a response", ea.Response.Bytes, eb.Response.Bytes)
		}
	}
	for i := range b.Entrants {
		if a.Entrant(b.Entrants[i].Name) == nil {
			d = append(d, b.Entrants[i].Title+": only in B")
		}
	}
	return d
}

func firstLine(text string) string {
	first, _, _ := strings.Cut(text, "\n")
	return first
}
