package timeline

import (
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/lab/report"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/table"
	"github.com/tarehq/tare/internal/page"
)

// Names of the files in a results folder, in addition to the page.
const (
	runFile    = "run.json"
	eventsFile = "events.csv"
	resultFile = "results.csv"
	memoryFile = "memory.csv"
	textFile   = "report.md"
)

//go:embed page.html
var pageSource embed.FS

// writePage writes the report as one HTML file without external resources.
func (r *Run) writePage(w io.Writer) error { return page.Write(w, pageSource, r.pageFuncs(), r) }

// pageFuncs returns the functions of the page's template.
func (r *Run) pageFuncs() map[string]any {
	heads, rows := table.Shown(table.Page, r.columns(), slices.Values(r.lines()))
	return map[string]any{
		"heads": func() []string { return heads },
		"rows":  func() [][]string { return rows },
		"charts": func() (all []*Chart) {
			for i := range r.Cases {
				if c := r.Chart(&r.Cases[i]); c != nil {
					all = append(all, c)
				}
			}
			return all
		},
		"legends": r.legends,
		"lasted":  r.lasted,
		"join":    func(words []string) string { return strings.Join(words, ", ") },
		"gb":      func(bytes uint64) string { return fmt.Sprintf("%.1f GB", float64(bytes)/1e9) },
	}
}

// FileNames returns the names of all files that WriteFiles writes.
func FileNames() []string { return slices.Collect(maps.Keys(new(Run).files())) }

func (r *Run) files() map[string]func(io.Writer) error {
	return map[string]func(io.Writer) error{
		report.PageFile: r.writePage, textFile: r.writeMarkdown, runFile: r.writeRun, eventsFile: r.writeEvents,
		resultFile: r.writeResults, memoryFile: r.writeMemory,
	}
}

// WriteFiles writes all files of the report to a folder. It continues after a file that fails.
func (r *Run) WriteFiles(dir string) error {
	var errs []error
	for name, write := range r.files() {
		errs = append(errs, sample.WriteFile(filepath.Join(dir, name), write))
	}
	return errors.Join(errs...)
}

func (r *Run) writeRun(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "\t")
	return e.Encode(r)
}

// Read reads a results folder of an experiment of events.
func Read(dir string) (*Run, error) {
	name := filepath.Join(dir, runFile)
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	r := new(Run)
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return r, nil
}

func (r *Run) writeResults(w io.Writer) error {
	return table.WriteCSV(w, r.columns(), slices.Values(r.lines()))
}

// writeEvents writes a line for each case, group and second.
func (r *Run) writeEvents(w io.Writer) error {
	type row struct {
		of, group string
		second    int
		*Second
	}
	var rows []row
	for i := range r.Cases {
		c := &r.Cases[i]
		for g := range c.Groups {
			for s := range c.Groups[g].Seconds {
				rows = append(rows, row{c.Name, r.Groups[g].Name, s, &c.Groups[g].Seconds[s]})
			}
		}
	}
	columns := []table.Column[row]{
		table.Text("case", func(l row) string { return l.of }),
		table.Text("clients", func(l row) string { return l.group }),
		table.Count("second", func(l row) int { return l.second }),
	}
	for _, o := range outcomes() {
		name := strings.ReplaceAll(string(o), " ", "_")
		columns = append(columns, table.Count(name, func(l row) int { return l.Outcomes[o] }))
	}
	columns = append(columns,
		table.Figure("slowest_ms", func(l row) float64 { return float64(l.Slowest) / 1e6 }),
		table.Figure("latest_ms", func(l row) float64 { return float64(l.Latest) / 1e6 }))
	return table.WriteCSV(w, columns, slices.Values(rows))
}

// writeMemory writes a line for each case and sample.
func (r *Run) writeMemory(w io.Writer) error {
	type row struct {
		of string
		Sample
	}
	var rows []row
	for i := range r.Cases {
		for _, s := range r.Cases[i].Samples {
			rows = append(rows, row{r.Cases[i].Name, s})
		}
	}
	return table.WriteCSV(w, []table.Column[row]{
		table.Text("case", func(l row) string { return l.of }),
		table.Figure("s", func(l row) float64 { return l.At.Round(time.Millisecond).Seconds() }),
		table.Count("memory_bytes", func(l row) int { return int(l.Memory) }),
		table.Count("sockets_bytes", func(l row) int { return int(l.Sockets) }),
		table.Count("crowd", func(l row) int { return l.Crowd }),
		table.Count("ended", func(l row) int { return l.Ended }),
	}, slices.Values(rows))
}
