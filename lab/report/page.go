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

	"github.com/tarehq/tare/internal/page"
	"github.com/tarehq/tare/lab/stat"
)

//go:embed *.html
var pageSource embed.FS

// writePage writes the report as one HTML file that needs nothing else.
func (a *Analysis) writePage(w io.Writer) error {
	return page.Write(w, pageSource, pageFuncs(), a)
}

// pageFuncs are what the page's template calls.
func pageFuncs() template.FuncMap {
	percent := func(share float64) func() string {
		return func() string { return fmt.Sprintf("%.0f %%", 100*share) }
	}
	return template.FuncMap{
		"section":    newSection,
		"micros":     micros,
		"times":      times,
		"interval":   intervalText,
		"condition":  conditionText,
		"millis":     millis,
		"blocks":     blocksText,
		"signed":     signed,
		"bounds":     signedInterval,
		"heat":       heat,
		"percall":    perCall,
		"margin":     percent(stat.SameWithin),
		"confidence": percent(stat.Confidence),
		"mb":         func(bytes float64) string { return fmt.Sprintf("%.0f", bytes/1e6) },
		"fixed":      func(digits int, v float64) string { return fmt.Sprintf("%.*f", digits, v) },
		"seconds":    func(s float64) string { return time.Duration(s * float64(time.Second)).Round(time.Second).String() },
		"join":       func(words []string) string { return strings.Join(words, ", ") },
		"sorted":     func(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) },
		"names":      func(m map[string][]string) string { return strings.Join(slices.Sorted(maps.Keys(m)), ", ") },
		"gb":         func(bytes uint64) string { return fmt.Sprintf("%.1f GB", float64(bytes)/1e9) },
	}
}

// section is what the page says of one condition.
type section struct {
	Analysis *Analysis
	Table    *Table
	ID       string
	First    bool // the others are shown in less detail at first
}

func newSection(a *Analysis, i int) section {
	return section{a, &a.Tables[i], sectionID(i), i == 0}
}

func sectionID(i int) string { return fmt.Sprintf("condition-%d", i+1) }

// link leads to a part of the page.
type link struct{ ID, Text string }

// Contents are the links to the parts of a page that is long; nil of one that is not.
func (a *Analysis) Contents() (links []link) {
	const few = 2
	if len(a.Tables) <= few && len(a.Sweeps) == 0 {
		return nil
	}
	for i := range a.Tables {
		links = append(links, link{sectionID(i), "With " + conditionText(&a.Tables[i])})
	}
	if len(a.Sweeps) > 0 {
		links = append(links, link{"sweeps", "What changes with settings"})
	}
	if len(a.Published) > 0 {
		links = append(links, link{"shape", "The published shape, and ours"})
	}
	return append(links, link{"who", "Who was weighed"}, link{"equal", "Are they equal?"}, link{"timeline", "What happened when"}, link{"method", "How this was measured"})
}
