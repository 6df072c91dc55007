package gobench

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/stat"
)

// Verdict returns a sentence for each group: how the engines' times compare with the control's.
func (a *Analysis) Verdict() string {
	var sentences []string
	for i := range a.Benchmarks.Groups {
		var parts []string
		for j := range a.Entrants {
			if part := a.spread(&a.Benchmarks.Groups[i], j); part != "" {
				parts = append(parts, part)
			}
		}
		if len(parts) > 0 {
			sentences = append(sentences, fmt.Sprintf("%s, relative to %s's time: %s.",
				a.Benchmarks.Groups[i].Title, a.Control().Title, strings.Join(parts, "; ")))
		}
	}
	if len(sentences) == 0 {
		return "No results can be compared."
	}
	return strings.Join(sentences, " ")
}

// spread returns the range of an engine's ratios, measured and published, as text.
func (a *Analysis) spread(g *sample.Group, engine int) string {
	var parts []string
	for _, t := range a.Tables {
		if t.Group != g {
			continue
		}
		var ours, theirs []float64
		for _, row := range t.Rows {
			ours = append(ours, row.Cells[engine].Ratio.Mid)
			theirs = append(theirs, row.Cells[engine].PublishedRatio)
		}
		if ours, theirs = stat.Known(ours), stat.Known(theirs); len(ours) == 0 {
			continue
		}
		text := fmt.Sprintf("%s at GOMAXPROCS %d", between(ours), t.Procs)
		if len(theirs) > 0 {
			text += fmt.Sprintf(" (published %s)", between(theirs))
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		return ""
	}
	return fmt.Sprintf("%s takes %s", a.Entrants[engine].Title, strings.Join(parts, ", "))
}

func between(ratios []float64) string {
	lo, hi := times(slices.Min(ratios)), times(slices.Max(ratios))
	if lo == hi {
		return lo
	}
	return lo + "–" + hi
}

// times returns a ratio as text, or "" for NaN.
func times(r float64) string {
	if math.IsNaN(r) {
		return ""
	}
	return fmt.Sprintf("%.2f", r)
}

// Shape returns sentences about whether the results confirm the published order of engines, and the
// published absence of allocations.
func (a *Analysis) Shape() []string {
	var all []string
	for i := range a.Entrants {
		e := &a.Entrants[i]
		rows := a.rowsOf(e)
		if s := order(e, a.Control(), rows); s != "" {
			all = append(all, s)
		}
		if s := allocations(e, rows); s != "" {
			all = append(all, s)
		}
	}
	if len(all) > 0 && a.Benchmarks.Why != "" {
		all = append(all, a.Benchmarks.Why)
	}
	return all
}

// labeledCell is a cell with the name of its row and the condition.
type labeledCell struct {
	*Cell
	label string
}

// rowsOf returns an engine's cells with both measured and published figures.
func (a *Analysis) rowsOf(e *sample.Entrant) (rows []labeledCell) {
	for _, t := range a.Tables {
		for _, row := range t.Rows {
			for i := range row.Cells {
				if c := &row.Cells[i]; c.Engine == e && c.Published != nil && c.Trials > 0 {
					rows = append(rows, labeledCell{c, label(row.Name, t.Procs)})
				}
			}
		}
	}
	return rows
}

// order returns a sentence about the rows in which an engine is faster or slower than the control
// as published, and those in which it is not.
func order(e, control *sample.Entrant, rows []labeledCell) string {
	var reversed, unclear []string
	compared, closer, fewBlocks := 0, 0, ""
	for _, r := range rows {
		if math.IsNaN(r.PublishedRatio) || math.IsNaN(r.Ratio.Mid) {
			continue
		}
		compared++
		published := stat.Interval{Lo: r.PublishedRatio, Mid: r.PublishedRatio, Hi: r.PublishedRatio}.Finding()
		switch r.Ratio.Finding() {
		case published:
		case stat.Unclear:
			unclear = append(unclear, r.label)
			if !r.Ratio.Known() {
				fewBlocks = " (an interval needs more blocks)"
			}
		default:
			reversed = append(reversed, r.label)
		}
		if math.Abs(math.Log(r.Ratio.Mid)) < math.Abs(math.Log(r.PublishedRatio)) {
			closer++
		}
	}
	if compared == 0 {
		return ""
	}
	text := fmt.Sprintf("The published order of %s and %s is confirmed in %d of %s", e.Title, control.Title,
		compared-len(reversed)-len(unclear), rowsText(compared))
	if len(reversed) > 0 {
		text += "; it is reversed or equal in " + names(reversed)
	}
	if len(unclear) > 0 {
		text += "; it is unclear in " + names(unclear) + fewBlocks
	}
	return fmt.Sprintf("%s. In %s the difference is smaller than published.", text, rowsText(closer))
}

func rowsText(n int) string {
	if n == 1 {
		return "1 row"
	}
	return fmt.Sprintf("%d rows", n)
}

// names returns a list of labels as text. A long list becomes its length.
func names(labels []string) string {
	const most = 6
	if len(labels) > most {
		return strconv.Itoa(len(labels))
	}
	return strings.Join(labels, ", ")
}

// allocations returns a sentence about the rows for which no allocations were published.
func allocations(e *sample.Entrant, rows []labeledCell) string {
	none := 0
	var some []string
	for _, r := range rows {
		if r.Published.Allocs > 0 {
			continue
		}
		none++
		if r.Allocs > 0 {
			some = append(some, fmt.Sprintf("%s (%.2g)", r.label, r.Allocs))
		}
	}
	switch {
	case none == 0:
		return ""
	case len(some) == 0:
		return fmt.Sprintf("%s makes no allocations per operation in %s, as published.", e.Title, rowsText(none))
	}
	return fmt.Sprintf("%s makes no allocations per operation in %d of the %s where that was published; it does in %s. "+
		"Allocations of the setup count, too: the shorter a benchmark runs, the more.", e.Title, none-len(some), rowsText(none), names(some))
}
