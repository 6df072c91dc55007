package gobench

import (
	"cmp"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/perf/benchfmt"

	"github.com/tarehq/tare/internal/lab/report"
	"github.com/tarehq/tare/internal/lab/stat"
	"github.com/tarehq/tare/internal/lab/table"
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

// cellLine is a cell with its row and table.
type cellLine struct {
	*Cell
	row   string
	procs int
}

// writeCSV writes the cells of all tables.
func (a *Analysis) writeCSV(w io.Writer) error {
	var lines []cellLine
	for _, t := range a.Tables {
		for _, row := range t.Rows {
			for i := range row.Cells {
				if c := &row.Cells[i]; c.Trials > 0 || c.Published != nil {
					lines = append(lines, cellLine{c, row.Name, t.Procs})
				}
			}
		}
	}
	published := func(name string, of func(cellLine) float64) table.Column[cellLine] {
		return table.Text(name, func(l cellLine) string {
			if l.Published == nil {
				return ""
			}
			return table.Number(of(l))
		})
	}
	return table.WriteCSV(w, slices.Concat([]table.Column[cellLine]{
		table.Text("experiment", func(cellLine) string { return a.Experiment }),
		table.Count("gomaxprocs", func(l cellLine) int { return l.procs }),
		table.Text("benchmark", func(l cellLine) string { return l.row }),
		table.Text("engine", func(l cellLine) string { return l.Engine.Name }),
		table.Count("trials", func(l cellLine) int { return l.Trials }),
	}, table.Interval("ns_per_op", func(l cellLine) stat.Interval { return l.Ns }), []table.Column[cellLine]{
		table.Figure("bytes_per_op", func(l cellLine) float64 { return l.Bytes }),
		table.Figure("allocs_per_op", func(l cellLine) float64 { return l.Allocs }),
	}, table.Interval("ratio", func(l cellLine) stat.Interval { return l.Ratio }), []table.Column[cellLine]{
		table.Text("finding", func(l cellLine) string { return l.Ratio.Finding().String() }),
		published("published_ns_per_op", func(l cellLine) float64 { return l.Published.Ns }),
		published("published_bytes_per_op", func(l cellLine) float64 { return l.Published.Bytes }),
		published("published_allocs_per_op", func(l cellLine) float64 { return l.Published.Allocs }),
		published("published_ratio", func(l cellLine) float64 { return l.PublishedRatio }),
	}), slices.Values(lines))
}
