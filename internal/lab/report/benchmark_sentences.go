package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/stat"
)

// benchmarksVerdict returns a sentence for each group of benchmarks: how the engines' times compare
// with the control's.
func (a *Report) benchmarksVerdict() string {
	var sentences []string
	for i := range a.Benchmarks.Groups {
		var parts []string
		for j := range a.Entrants {
			if part := a.timesOf(&a.Entrants[j], &a.Benchmarks.Groups[i]); part != "" {
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

// timesOf returns the range of an engine's ratios in a group, measured and published, as text.
func (a *Report) timesOf(e *sample.Entrant, g *sample.Group) string {
	var parts []string
	for _, t := range a.EngineTables {
		var ours, theirs []float64
		for _, row := range t.Rows {
			if t.Group == g && row.Name == e.Name {
				ours, theirs = append(ours, row.Ratio.Mid), append(theirs, row.PublishedRatio)
			}
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
	return fmt.Sprintf("%s takes %s", e.Title, strings.Join(parts, ", "))
}

func between(ratios []float64) string {
	lo, hi := times(slices.Min(ratios)), times(slices.Max(ratios))
	if lo == hi {
		return lo
	}
	return lo + "–" + hi
}

// benchmarkShape returns sentences about whether the results confirm the published order of
// engines, and the published absence of allocations.
func (a *Report) benchmarkShape() (all []string) {
	for i := range a.Entrants {
		e := &a.Entrants[i]
		var rows []analyze.EngineRow
		for row := range a.benchmarkRows() {
			if row.Name == e.Name && row.Published != nil && row.Trials > 0 {
				rows = append(rows, row)
			}
		}
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

// order returns a sentence about the rows in which an engine is faster or slower than the control
// as published, and those in which it is not.
func order(e, control *sample.Entrant, rows []analyze.EngineRow) string {
	var reversed, unclear []string
	compared, closer, fewBlocks := 0, 0, ""
	for _, r := range rows {
		if math.IsNaN(r.PublishedRatio) || math.IsNaN(r.Ratio.Mid) {
			continue
		}
		compared++
		switch r.Ratio.Finding() {
		case stat.Interval{Lo: r.PublishedRatio, Mid: r.PublishedRatio, Hi: r.PublishedRatio}.Finding():
		case stat.Unclear:
			unclear = append(unclear, r.Label())
			if !r.Ratio.Known() {
				fewBlocks = " (an interval needs more blocks)"
			}
		default:
			reversed = append(reversed, r.Label())
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
		text += "; it is reversed or equal in " + listed(reversed)
	}
	if len(unclear) > 0 {
		text += "; it is unclear in " + listed(unclear) + fewBlocks
	}
	return fmt.Sprintf("%s. In %s the difference is smaller than published.", text, rowsText(closer))
}

func rowsText(n int) string {
	if n == 1 {
		return "1 row"
	}
	return fmt.Sprintf("%d rows", n)
}

// listed returns a list of labels as text. A long list becomes its length.
func listed(labels []string) string {
	const most = 6
	if len(labels) > most {
		return strconv.Itoa(len(labels))
	}
	return strings.Join(labels, ", ")
}

// allocations returns a sentence about the rows for which no allocations were published.
func allocations(e *sample.Entrant, rows []analyze.EngineRow) string {
	none := 0
	var some []string
	for _, r := range rows {
		if r.Published.Allocs > 0 {
			continue
		}
		none++
		if r.Allocs > 0 {
			some = append(some, fmt.Sprintf("%s (%.2g)", r.Label(), r.Allocs))
		}
	}
	switch {
	case none == 0:
		return ""
	case len(some) == 0:
		return fmt.Sprintf("%s makes no allocations per operation in %s, as published.", e.Title, rowsText(none))
	}
	return fmt.Sprintf("%s makes no allocations per operation in %d of the %s where that was published; it does in %s. "+
		"Allocations of the setup count, too: the shorter a benchmark runs, the more.", e.Title, none-len(some), rowsText(none), listed(some))
}
