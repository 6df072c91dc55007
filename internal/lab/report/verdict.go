package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
)

// Verdict returns the result of the experiment in a few sentences, for the first measured
// condition. It reports only what the intervals show.
func (a *Report) Verdict() string { return strings.TrimSpace(a.comparison() + " " + a.Others()) }

// Others returns a sentence on the CPU time of other programs, if it widens the first table's
// intervals; otherwise "".
func (a *Report) Others() string {
	if len(a.Tables) == 0 || a.Tables[0].Others() == 0 {
		return ""
	}
	return fmt.Sprintf("Other programs used %.2f of a CPU, so the intervals are wider.", a.Tables[0].Others())
}

// comparison is the verdict without what limits its validity.
func (a *Report) comparison() string {
	if a.Events != nil {
		return a.eventsVerdict()
	}
	if len(a.Targets) > 0 {
		return a.targetsVerdict()
	}
	const noControl = "The control was not measured, so nothing can be compared with it."
	if len(a.Tables) == 0 {
		if e := a.Control(); e != nil && e.Absent != "" {
			return noControl
		}
		return "Nothing was measured."
	}
	t := &a.Tables[0]
	control := t.Row(sample.Control)
	if control == nil || control.Trials == 0 {
		return noControl
	}
	if a.OfKind(sample.Build) != nil {
		return t.builds()
	}
	if len(t.Pairs) > 0 {
		var sentences []string
		for i := range t.Pairs {
			sentences = append(sentences, pairSentence(&t.Pairs[i]))
		}
		return upper(strings.Join(sentences, "; ")) + "."
	}
	return t.contenders(a.Conclusion, control)
}

// contenders returns the experiment's conclusion, and a sentence on the contenders that it does not
// name. Without a conclusion the ways have a sentence, and the rivals.
func (t *Table) contenders(conclusion string, control *analyze.Row) string {
	named := make(map[string]bool)
	first := sample.FillConclusion(conclusion, func(names []string) string {
		for _, name := range names {
			named[name] = true
		}
		return t.conclusion(names)
	})
	among := func(kinds ...sample.Kind) (rows []*analyze.Row) {
		for i := range t.Rows {
			row := &t.Rows[i]
			if row.Trials > 0 && slices.Contains(kinds, row.Kind) && (first == "" || !named[row.Name]) {
				rows = append(rows, row)
			}
		}
		return rows
	}
	sentences := []string{first, compared(among(sample.Way, sample.Rival))}
	if first == "" {
		sentences = []string{
			fmt.Sprintf("A request costs %s of CPU time with %s", micros(control.WeightUs.Mid), control.Title),
			compared(among(sample.Way)), compared(among(sample.Rival)),
		}
	}
	sentences = slices.DeleteFunc(sentences, func(s string) bool { return s == "" })
	return strings.Join(sentences, ". ") + "."
}

// conclusion returns the ratios of contenders, such as "4.3 to 5.1 times", or the CPU time of the
// control. It returns "" if none was measured.
func (t *Table) conclusion(names []string) string {
	least, most, unclear := math.Inf(1), 0.0, ""
	for _, name := range names {
		row := t.Named(name)
		switch {
		case row == nil || row.Trials == 0:
			continue
		case row.Kind == sample.Control:
			return micros(row.WeightUs.Mid)
		case row.Ratio.Finding() == stat.Unclear:
			unclear = " (unclear)"
		}
		least, most = min(least, row.Ratio.Mid), max(most, row.Ratio.Mid)
	}
	if !(most > 0) {
		return ""
	}
	digits := 1
	if least < 1.5 {
		digits = 2
	}
	text := fixed(digits, least)
	if to := fixed(digits, most); to != text {
		text += " to " + to
	}
	return text + " times" + unclear
}

// compared returns a sentence without a period on the ratios of contenders to the control, the lowest
// first; "" without contenders.
func compared(rows []*analyze.Row) string {
	rows = slices.SortedStableFunc(slices.Values(rows),
		func(a, b *analyze.Row) int { return cmp.Compare(a.Ratio.Mid, b.Ratio.Mid) })
	texts := make([]string, len(rows))
	for i, row := range rows {
		texts[i] = fmt.Sprintf("%s %s times", row.Title, times(row.Ratio.Mid))
		if i == 0 {
			texts[i] = fmt.Sprintf("%s needs %s times as much CPU time", row.Title, times(row.Ratio.Mid))
		}
		if f := row.Ratio.Finding(); f == stat.Same || f == stat.Unclear {
			texts[i] += fmt.Sprintf(" (%s)", f)
		}
	}
	return sample.List(texts)
}

func upper(s string) string { return strings.ToUpper(s[:1]) + s[1:] }

// Remarks returns the sentences after the verdict.
func (a *Report) Remarks() (remarks []string) {
	if len(a.Targets) > 0 {
		return a.Notes
	}
	if len(a.Tables) == 0 {
		return nil
	}
	t := &a.Tables[0]
	remarks = append(remarks, "This is with "+t.Text()+".")
	if c := t.Row(sample.Ceiling); c != nil && c.Ratio.Known() {
		remarks = append(remarks,
			fmt.Sprintf("A loop that only reads requests and writes fixed bytes needs %.0f %% of the CPU time of %s.",
				100*c.Ratio.Mid, t.Row(sample.Control).Title))
	}
	return append(remarks, a.Notes...)
}

func micros(us float64) string {
	switch {
	case us >= 100:
		return fmt.Sprintf("%.0f µs", us)
	case us >= 10:
		return fmt.Sprintf("%.1f µs", us)
	}
	return fmt.Sprintf("%.2f µs", us)
}

func times(r float64) string {
	if math.IsNaN(r) {
		return ""
	}
	return fmt.Sprintf("%.2f", r)
}

func intervalText(i stat.Interval) string {
	if !i.Known() {
		return ""
	}
	return fmt.Sprintf("%.2f–%.2f", i.Lo, i.Hi)
}

// Problems returns what makes the run incomplete: contenders that were left out, and warnings about
// the whole run.
func (a *Report) Problems() (all []string) {
	for _, e := range a.Entrants {
		if e.Absent != "" {
			all = append(all, fmt.Sprintf("LEFT OUT: %s: %s", e.Title, e.Absent))
		}
	}
	for _, warning := range a.Run.Warnings {
		all = append(all, "WARNING: "+warning)
	}
	return slices.Concat(all, a.caseProblems(), a.failedRows())
}

// WriteBadge writes the result as JSON for an endpoint badge of shields.io.
func (a *Report) WriteBadge(w io.Writer) error {
	message, color := a.badge()
	return json.NewEncoder(w).Encode(struct {
		SchemaVersion int    `json:"schemaVersion"`
		Label         string `json:"label"`
		Message       string `json:"message"`
		Color         string `json:"color"`
	}{1, a.Title, message, color})
}

func (a *Report) badge() (message, color string) {
	const good, bad, unclear = "brightgreen", "red", "lightgrey"
	if len(a.Targets) > 0 {
		required, count := a.required()
		color = good
		if count[analyze.Met] < required {
			color = bad
		}
		return fmt.Sprintf("%d of %d targets met", count[analyze.Met], required), color
	}
	if a.Events != nil {
		lost := 0
		for _, l := range a.caseLines() {
			lost += l.sum.Lost()
		}
		return fmt.Sprintf("%d requests lost", lost), "blue"
	}
	if len(a.Tables) == 0 {
		return "not measured", unclear
	}
	t := &a.Tables[0]
	if a.OfKind(sample.Build) != nil {
		if t.Changes == nil {
			return "not measured", unclear
		}
		cpu := t.Changes[0].Ratio // the first metric is the CPU time
		color := map[stat.Finding]string{stat.Less: good, stat.Same: good, stat.More: bad, stat.Unclear: unclear}
		return percents(cpu) + " of CPU time", color[cpu.Finding()]
	}
	control := t.Row(sample.Control)
	if control == nil || control.Trials == 0 {
		return "not measured", unclear
	}
	return micros(control.WeightUs.Mid) + " of CPU time per request", "blue"
}
