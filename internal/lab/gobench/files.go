package gobench

import (
	"encoding/json"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/perf/benchfmt"

	"github.com/tarehq/tare/internal/lab/report"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/stat"
	"github.com/tarehq/tare/internal/lab/table"
)

// Names of the files in a results folder, in addition to the page.
const (
	benchFile = "results.txt"
	csvFile   = "results.csv"
)

// writeBench writes all results in Go's benchmark format, which benchstat reads.
func (a *Analysis) writeBench(w io.Writer) error {
	out := benchfmt.NewWriter(w)
	for i := range a.Records {
		r := &a.Records[i]
		if r.Failure != "" {
			continue
		}
		name := a.Entrant(r.Contender).Prefix + r.Scenario.Name
		if r.Procs > 1 {
			name += "-" + strconv.Itoa(r.Procs)
		}
		result := &benchfmt.Result{Name: benchfmt.Name(name), Iters: r.Iterations, Config: []benchfmt.Config{
			{Key: "cpu", Value: []byte(a.Environment.CPU), File: true},
			{Key: "kernel", Value: []byte(a.Environment.Kernel), File: true},
			{Key: "tare", Value: []byte(a.Tool), File: true},
		}}
		for _, unit := range slices.Sorted(maps.Keys(r.Values)) {
			result.Values = append(result.Values, benchfmt.Value{Value: r.Values[unit], Unit: unit})
		}
		if err := out.Write(result); err != nil {
			return err
		}
	}
	return nil
}

// WriteFiles writes all files except the journal to a results folder. It continues after an error
// and returns the first one.
func (a *Analysis) WriteFiles(dir string) error {
	var first error
	for _, file := range []struct {
		name  string
		write func(io.Writer) error
	}{{report.PageFile, a.writePage}, {csvFile, a.writeCSV}, {benchFile, a.writeBench}, {sample.RunFile, a.writeRun}} {
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
