package gobench

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/tarehq/tare/lab/stat"
)

// Verdict is what the run says of each group: by how much an engine's time differs from the
// control's.
func (a *Analysis) Verdict() string {
	var sentences []string
	for i := range a.Groups {
		var parts []string
		for j := range a.Entrants {
			if part := a.spread(&a.Groups[i], j); part != "" {
				parts = append(parts, part)
			}
		}
		if len(parts) > 0 {
			sentences = append(sentences, fmt.Sprintf("%s: of %s's time %s.", a.Groups[i].Title, a.control().Title, strings.Join(parts, "; ")))
		}
	}
	if len(sentences) == 0 {
		return "Nothing was measured that could be compared."
	}
	return strings.Join(sentences, " ")
}

// spread says between which ratios an engine's rows lie, here and in the write-up.
func (a *Analysis) spread(g *Group, engine int) string {
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
		if ours, theirs = known(ours), known(theirs); len(ours) == 0 {
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

// times writes a ratio, or nothing where there is none.
func times(r float64) string {
	if math.IsNaN(r) {
		return ""
	}
	return fmt.Sprintf("%.2f", r)
}

// Shape says whether the published order and the published lack of allocations came out,
// and names where they did not.
func (a *Analysis) Shape() []string {
	var all []string
	for i := range a.Entrants {
		e := &a.Entrants[i]
		rows := a.rowsOf(e)
		if s := order(e, a.control(), rows); s != "" {
			all = append(all, s)
		}
		if s := allocations(e, rows); s != "" {
			all = append(all, s)
		}
	}
	if len(all) > 0 && a.Why != "" {
		all = append(all, a.Why)
	}
	return all
}

// labelled is a cell with its row's name under its condition.
type labelled struct {
	*Cell
	label string
}

// rowsOf returns an engine's cells that were measured here and in the write-up.
func (a *Analysis) rowsOf(e *Entrant) (rows []labelled) {
	for _, t := range a.Tables {
		for _, row := range t.Rows {
			for i := range row.Cells {
				if c := &row.Cells[i]; c.Engine == e && c.Published != nil && c.Trials > 0 {
					rows = append(rows, labelled{c, label(row.Name, t.Procs)})
				}
			}
		}
	}
	return rows
}

// order says where an engine is to the other side of the control than in the write-up.
func order(e, control *Entrant, rows []labelled) string {
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
	text := fmt.Sprintf("The published order of %s and %s came out in %d of %s", e.Title, control.Title, compared-len(reversed)-len(unclear), rowsText(compared))
	if len(reversed) > 0 {
		text += "; it is another in " + names(reversed)
	}
	if len(unclear) > 0 {
		text += "; it is unclear in " + names(unclear) + fewBlocks
	}
	return fmt.Sprintf("%s. In %s they are closer together than published.", text, rowsText(closer))
}

func rowsText(n int) string {
	if n == 1 {
		return "1 row"
	}
	return fmt.Sprintf("%d rows", n)
}

// names lists labels, or says how many they are.
func names(labels []string) string {
	const most = 6
	if len(labels) > most {
		return strconv.Itoa(len(labels))
	}
	return strings.Join(labels, ", ")
}

// allocations says whether what did not allocate in the write-up does here.
func allocations(e *Entrant, rows []labelled) string {
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
		return fmt.Sprintf("%s allocates nothing for an operation in %s, as published.", e.Title, rowsText(none))
	}
	return fmt.Sprintf("%s allocates nothing for an operation in %d of the %s where that was published; it does in %s. "+
		"What is set up once counts, too, and for more the shorter a benchmark runs.", e.Title, none-len(some), rowsText(none), names(some))
}
