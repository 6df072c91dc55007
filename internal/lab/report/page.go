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

	"github.com/tarehq/tare/internal/lab/stat"
	"github.com/tarehq/tare/internal/page"
)

//go:embed *.html
var pageSource embed.FS

// writePage writes the report as one HTML file without external resources.
func (a *Analysis) writePage(w io.Writer) error {
	return page.Write(w, pageSource, pageFuncs(), a)
}

// pageFuncs returns the functions of the page's templates.
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
		"seconds": func(s float64) string {
			return time.Duration(s * float64(time.Second)).Round(time.Second).String()
		},
		"join":   func(words []string) string { return strings.Join(words, ", ") },
		"sorted": func(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) },
		"names":  func(m map[string][]string) string { return strings.Join(slices.Sorted(maps.Keys(m)), ", ") },
		"gb":     func(bytes uint64) string { return fmt.Sprintf("%.1f GB", float64(bytes)/1e9) },
	}
}

// section is the page's part about one condition.
type section struct {
	Analysis *Analysis
	Table    *Table
	ID       string
	First    bool // details of the others are closed
}

func newSection(a *Analysis, i int) section {
	return section{a, &a.Tables[i], sectionID(i), i == 0}
}

func sectionID(i int) string { return fmt.Sprintf("condition-%d", i+1) }

// link points to a part of the page.
type link struct{ ID, Text string }

// Contents returns links to the parts of a long page, or nil for a short one.
func (a *Analysis) Contents() (links []link) {
	const few = 2
	if len(a.Tables) <= few && len(a.Sweeps) == 0 {
		return nil
	}
	for i := range a.Tables {
		links = append(links, link{sectionID(i), "With " + conditionText(&a.Tables[i])})
	}
	if len(a.Sweeps) > 0 {
		links = append(links, link{"sweeps", "Sweeps of settings"})
	}
	if len(a.Published) > 0 {
		links = append(links, link{"shape", "Published and measured rates"})
	}
	return append(links, link{"who", "Contenders"}, link{"equal", "Responses compared"}, link{"timeline", "Timeline"},
		link{"method", "How this was measured"})
}
