package report

import (
	_ "embed"
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

//go:embed page.html
var pageSource string

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
		"margin":     percent(stat.Margin),
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
