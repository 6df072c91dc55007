package gobench

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/lab/stat"
	"github.com/tarehq/tare/internal/page"
)

//go:embed page.html
var pageSource embed.FS

// writePage writes the report as one HTML file without external resources.
func (a *Analysis) writePage(w io.Writer) error {
	return page.Write(w, pageSource, a.pageFuncs(), a)
}

// pageFuncs returns the functions of the page's template.
func (a *Analysis) pageFuncs() template.FuncMap {
	return template.FuncMap{
		"chart":       a.Chart,
		"compared":    a.compared,
		"isPublished": func(t Table, engine int) bool { return t.isPublished(engine) },
		"times":       times,
		"interval":    interval,
		"count":       count,
		"control":     func() string { return a.Control().Title },
		"confidence":  func() string { return fmt.Sprintf("%.0f %%", 100*stat.Confidence) },
		"join":        func(words []string) string { return strings.Join(words, ", ") },
		"seconds": func(s float64) string {
			return time.Duration(s * float64(time.Second)).Round(time.Second).String()
		},
		"gb": func(bytes uint64) string { return fmt.Sprintf("%.1f GB", float64(bytes)/1e9) },
	}
}
