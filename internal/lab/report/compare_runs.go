package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/document"
	"github.com/tarehq/tare/internal/lab/sample"
	loadreport "github.com/tarehq/tare/load/report"
)

// RunComparison is the comparison of two runs.
type RunComparison struct {
	A, B *Report

	// Mismatches lists differences of the machines, conditions and questions, which make the runs
	// incomparable.
	Mismatches []string

	Changes []string // other differences: versions and settings

	Tables []comparedTable // of conditions that both runs have
}

// comparedTable has the rows of contenders that both runs measured under a condition, in A's order.
type comparedTable struct {
	sample.Condition
	Rows [][2]*analyze.Row
}

// agreement compares a contender's ratios to the control in the two runs. They agree if their
// intervals overlap.
func agreement(a, b *analyze.Row) string {
	switch {
	case !a.Ratio.Known() || !b.Ratio.Known():
		return "unclear"
	case b.Ratio.Lo > a.Ratio.Hi:
		return "more in B"
	case b.Ratio.Hi < a.Ratio.Lo:
		return "less in B"
	}
	return "agree"
}

// Compare compares two runs.
func Compare(a, b *sample.Run) *RunComparison {
	two := &RunComparison{A: New(a), B: New(b), Mismatches: mismatches(a, b), Changes: settingChanges(a, b)}
	for i := range two.A.Tables {
		ta := &two.A.Tables[i]
		tb := sample.First(two.B.Tables, func(t *Table) bool { return regime(t.Condition) == regime(ta.Condition) })
		if tb == nil {
			continue
		}
		both := comparedTable{Condition: ta.Condition}
		for _, row := range ta.Measured() {
			if other := tb.Named(row.Name); other != nil && other.Trials > 0 {
				both.Rows = append(both.Rows, [2]*analyze.Row{row, other})
			}
		}
		if len(both.Rows) > 0 {
			two.Tables = append(two.Tables, both)
		}
	}
	return two
}

// Text returns the comparison for a terminal: what makes the runs incomparable, what changed,
// and the ratios of both.
func (two *RunComparison) Text() string {
	d := new(document.Document)
	var sides document.Lines
	for i, of := range []*Report{two.A, two.B} {
		sides = append(sides, fmt.Sprintf("%c: %s of %s, %s", 'A'+i, of.Experiment, of.Started.Format("2006-01-02 15:04"),
			loadreport.Plural(of.Blocks, "block")))
	}
	d.Add(sides)
	if len(two.Mismatches) > 0 {
		d.Add(document.Lines{"WARNING: these runs cannot be compared, because their ratios may differ for these reasons alone:"},
			document.Items{Texts: two.Mismatches})
	}
	if len(two.Changes) > 0 {
		d.Add(document.Lines{"What changed:"}, document.Items{Texts: two.Changes})
	}
	for _, both := range two.Tables {
		t := document.NewTable(1, []string{"", "A", "", "B", "", "result", "A µs", "B µs", "rate A", "rate B"}, nil)
		for _, rows := range both.Rows {
			a, b := rows[0], rows[1]
			t.Add("", a.Title, times(a.Ratio.Mid), intervalText(a.Ratio.Interval), times(b.Ratio.Mid), intervalText(b.Ratio.Interval),
				agreement(a, b), fixed(2, a.WeightUs.Mid), fixed(2, b.WeightUs.Mid), times(a.RateRatio.Mid),
				times(b.RateRatio.Mid))
		}
		d.Add(document.Heading{Text: fmt.Sprintf(
			"With %s: CPU time per request, as a ratio to the control's of the same run (%s interval)", both.Text(),
			confidence())}, t)
	}
	if len(two.Tables) == 0 {
		d.Add(document.Lines{"No contender was measured in both under the same condition."})
	}
	return d.Text(document.Form{})
}

type differences []string

func (d *differences) add(what string, a, b any) {
	if a, b := fmt.Sprint(a), fmt.Sprint(b); a != b {
		*d = append(*d, fmt.Sprintf("%s: %s in A, %s in B", what, cmp.Or(a, "none"), cmp.Or(b, "none")))
	}
}

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
	if e := r.Control(); e != nil {
		return e.Title
	}
	return ""
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

func rates(r *sample.Run) string {
	var texts []string
	for _, c := range r.Conditions {
		if !c.Saturated() {
			texts = append(texts, loadreport.Count(c.Rate)+" requests/s")
		}
	}
	return strings.Join(texts, ", ")
}

func settingChanges(a, b *sample.Run) []string {
	var d differences
	d.add("tare", a.Tool, b.Tool)
	d.add("system", a.Environment.System, b.Environment.System)
	d.add("Go that built tare", a.Environment.Go, b.Environment.Go)
	d.add("blocks", a.Blocks, b.Blocks)
	d.add("fixed rate", rates(a), rates(b))
	d.add("open files allowed", a.Environment.Nofile, b.Environment.Nofile)
	names := slices.AppendSeq(slices.Collect(maps.Keys(a.Environment.Sysctls)), maps.Keys(b.Environment.Sysctls))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		d.add(name, a.Environment.Sysctls[name], b.Environment.Sysctls[name])
	}
	for i := range a.Entrants {
		ea := &a.Entrants[i]
		eb := b.Entrant(ea.Name)
		if eb == nil {
			d = append(d, ea.Title+": only in A")
			continue
		}
		if ea.Kind == sample.Twin {
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
