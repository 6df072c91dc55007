package gobench

import (
	"cmp"
	"encoding/csv"
	"encoding/json"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/perf/benchfmt"

	"github.com/tarehq/tare/internal/lab/report"
	"github.com/tarehq/tare/internal/labrun"
)

// Names of the files in a results folder, in addition to the page.
const (
	benchFile = "results.txt"
	csvFile   = "results.csv"
	runFile   = "run.json"
)

// journal writes all results to a file in Go's benchmark format, which benchstat reads. It writes
// each result at once.
type journal struct {
	file   *os.File
	out    *benchfmt.Writer
	config []benchfmt.Config
}

// openResults makes the results folder and creates the journal. If that fails, the run continues
// and reports on the terminal only.
func (w *runner) openResults() {
	dir, err := labrun.ResultsDir(cmp.Or(w.Results, w.Root), w.Out, w.run.Started)
	var file *os.File
	if err == nil {
		file, err = os.Create(filepath.Join(dir, benchFile))
	}
	if err != nil {
		w.warn("results cannot be written to disk: %v", err)
		return
	}
	w.dir = dir
	w.journal = &journal{file: file, out: benchfmt.NewWriter(file), config: []benchfmt.Config{
		{Key: "cpu", Value: []byte(w.run.Environment.CPU), File: true},
		{Key: "kernel", Value: []byte(w.run.Environment.Kernel), File: true},
		{Key: "tare", Value: []byte(w.run.Tool), File: true},
	}}
}

func (j *journal) add(name string, s *Sample) error {
	if s.Procs > 1 {
		name += "-" + strconv.Itoa(s.Procs)
	}
	return j.out.Write(&benchfmt.Result{
		Name: benchfmt.Name(name), Iters: s.Iterations, Config: j.config, Values: []benchfmt.Value{
			{Value: s.Ns, Unit: "ns/op"}, {Value: s.Bytes, Unit: "B/op"}, {Value: s.Allocs, Unit: "allocs/op"},
		},
	})
}

func (j *journal) close() error { return j.file.Close() }

// WriteFiles writes all files except the journal to a results folder. It continues after an error
// and returns the first one.
func (a *Analysis) WriteFiles(dir string) error {
	var first error
	for _, file := range []struct {
		name  string
		write func(io.Writer) error
	}{{report.PageFile, a.writePage}, {csvFile, a.writeCSV}, {runFile, a.writeRun}} {
		if err := report.WriteFile(filepath.Join(dir, file.name), file.write); err != nil && first == nil {
			first = err
		}
	}
	return first
}

func (a *Analysis) writeRun(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(a.Run)
}

// writeCSV writes the rows of all tables. Columns with bounds of intervals end in _lo and _hi.
func (a *Analysis) writeCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{ // the writer keeps its first error
		"experiment", "gomaxprocs", "benchmark", "engine", "trials", "ns_per_op", "ns_per_op_lo", "ns_per_op_hi",
		"bytes_per_op", "allocs_per_op", "ratio", "ratio_lo", "ratio_hi", "finding",
		"published_ns_per_op", "published_bytes_per_op", "published_allocs_per_op", "published_ratio",
	})
	for _, t := range a.Tables {
		for _, row := range t.Rows {
			for _, c := range row.Cells {
				if c.Trials == 0 && c.Published == nil {
					continue
				}
				cells := []string{a.Experiment, strconv.Itoa(t.Procs), row.Name, c.Engine.Name, strconv.Itoa(c.Trials)}
				for _, v := range []float64{
					c.Ns.Mid, c.Ns.Lo, c.Ns.Hi, c.Bytes, c.Allocs, c.Ratio.Mid, c.Ratio.Lo, c.Ratio.Hi,
				} {
					cells = append(cells, number(v))
				}
				cells = append(cells, c.Ratio.Finding().String())
				published := []string{"", "", "", ""}
				if p := c.Published; p != nil {
					published = []string{number(p.Ns), number(p.Bytes), number(p.Allocs), number(c.PublishedRatio)}
				}
				_ = out.Write(append(cells, published...))
			}
		}
	}
	out.Flush()
	return out.Error()
}

// number returns a number as text, or "" for NaN and infinities.
func number(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', 6, 64)
}
