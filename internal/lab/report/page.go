package report

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/lab/document"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/page"
	"github.com/tarehq/tare/internal/stat"
)

//go:embed *.html
var pageSource embed.FS

// writePage writes the report as one HTML file without external resources.
func (a *Report) writePage(w io.Writer) error {
	return page.Write(w, pageSource, pageFuncs(), a)
}

// pageFuncs returns the functions of the page's templates.
func pageFuncs() map[string]any {
	percent := func(share float64) func() string {
		return func() string { return fmt.Sprintf("%.0f %%", 100*share) }
	}
	return map[string]any{
		"section":   newSection,
		"micros":    micros,
		"times":     times,
		"ratio":     ratioText,
		"interval":  intervalText,
		"condition": func(t *Table) string { return t.Text() },
		"millis":    millis,
		"blocks":    sample.BlocksText,
		"signed":    signed,
		"bounds":    signedInterval,
		"heat":      heat,
		"percall":   perCall,
		"calls":     callList,
		"lines": func(text string) template.HTML {
			return template.HTML(strings.ReplaceAll(template.HTMLEscapeString(text), "\n", "<br>"))
		},
		"margin":     percent(stat.SameWithin),
		"confidence": percent(stat.Confidence),
		"mb":         func(bytes float64) string { return fmt.Sprintf("%.0f", bytes/1e6) },
		"fixed":      fixed,
		"seconds": func(s float64) string {
			return time.Duration(s * float64(time.Second)).Round(time.Second).String()
		},
		"join":         func(words []string) string { return strings.Join(words, ", ") },
		"resultTable":  func(a *Report, t *Table) pageTable { return newPageTable(a.resultColumns(), t.lines()) },
		"shares":       newSharesView,
		"caseTable":    func(a *Report) pageTable { return newPageTable(a.caseColumns(), a.caseLines()) },
		"outcomes":     (*Report).outcomeLegend,
		"streamTables": (*Report).streamTables,
		"streamsNote":  func() string { return streamsNote },
		"strips": func(a *Report) (all []*strip) {
			for i := range a.Events.Cases {
				if s := a.strip(&a.Events.Cases[i]); s != nil {
					all = append(all, s)
				}
			}
			return all
		},
		"targetTable": func(a *Report) pageTable { return newPageTable(a.targetColumns(), a.Targets) },
		"sorted":      func(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) },
		"names":       func(m map[string][]string) string { return strings.Join(slices.Sorted(maps.Keys(m)), ", ") },
		"gb":          func(bytes uint64) string { return fmt.Sprintf("%.1f GB", float64(bytes)/1e9) },
	}
}

// sharesView is the page's part about what the costs mean.
type sharesView struct {
	Shares    []Share
	Condition string
}

func newSharesView(a *Report) *sharesView {
	shares, condition := a.SharesOf()
	if len(shares) == 0 {
		return nil
	}
	return &sharesView{shares, condition}
}

// cell is a cell of a table on the page.
type cell struct{ Class, Text string }

// pageTable is a table on the page.
type pageTable struct {
	Heads []string
	Lines [][]cell
}

func newPageTable[T any](columns []document.Column[T], rows []T) pageTable {
	columns = document.In(document.Page, columns)
	t := pageTable{Heads: document.Heads(columns)}
	for _, row := range rows {
		var cells []cell
		for _, c := range columns {
			shown := cell{Text: c.Text(row)}
			if c.Class != nil {
				shown.Class = c.Class(row)
			}
			cells = append(cells, shown)
		}
		t.Lines = append(t.Lines, cells)
	}
	return t
}

// section is the page's part about one condition.
type section struct {
	Report *Report
	Table  *Table
	ID     string
	First  bool // has the notes that concern all, and open details

	ExplainsLatency bool // is the first one at saturation, or at a fixed rate
}

func newSection(a *Report, i int) section {
	saturated := a.Tables[i].Saturated()
	before := slices.ContainsFunc(a.Tables[:i], func(t Table) bool { return t.Saturated() == saturated })
	return section{a, &a.Tables[i], sectionID(i), i == 0, !before}
}

func sectionID(i int) string { return fmt.Sprintf("condition-%d", i+1) }

// link points to a part of the page.
type link struct{ ID, Text string }

// Contents returns links to the parts of a long page, or nil for a short one.
func (a *Report) Contents() (links []link) {
	const few = 2
	if len(a.Tables) <= few && len(a.Sweeps) == 0 {
		return nil
	}
	for i := range a.Tables {
		links = append(links, link{sectionID(i), "With " + a.Tables[i].Text()})
	}
	if len(a.Sweeps) > 0 {
		links = append(links, link{"sweeps", "Sweeps of settings"})
	}
	return append(links, link{"who", "Contenders"}, link{"equal", "Responses compared"},
		link{"method", "How this was measured"})
}
