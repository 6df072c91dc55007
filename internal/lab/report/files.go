package report

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/document"
	"github.com/tarehq/tare/internal/lab/sample"
)

// Names of the files in a results folder.
const (
	PageFile  = "report.html"
	textFile  = "report.md"
	csvFile   = "results.csv"
	benchFile = "results.txt"
)

// FileNames returns the names of the files and folders of results folders, whatever the run.
func FileNames() []string {
	names := []string{targetsFile}
	for _, f := range New(new(sample.Run)).Files() {
		names = append(names, f.Name)
	}
	return names
}

// File is a file of a results folder.
type File struct {
	Name    string
	Content string // description for a reader
	write   func(io.Writer) error
}

// Files returns the files that WriteFiles writes, and the journal and the configurations, the most
// useful first.
func (a *Report) Files() []File {
	all := []File{{PageFile, "this page", a.writePage}, {textFile, "the report as Markdown", a.writeMarkdown}}
	journal := File{sample.JournalFile, "all trials with their times, one JSON object per line", nil}
	run := File{sample.RunFile, "everything else about the run", nil}
	configs := File{sample.ConfigsDir + "/", "the nginx configurations of the run", nil}
	switch {
	case a.Events != nil && len(a.streamTables()) > 0:
		return append(all, File{csvFile, "the streams of each case", func(w io.Writer) error {
			return document.WriteCSV(w, streamColumns(), a.streamLines())
		}}, run)
	case a.Events != nil:
		return append(all, File{csvFile, "the table of cases", func(w io.Writer) error {
			return document.WriteCSV(w, a.caseColumns(), slices.Values(a.caseLines()))
		}}, run)
	case len(a.Run.Targets) > 0:
		targets := File{targetsFile, "the targets, with the figures that they limit", a.writeTargets}
		return append(all, targets, journal, run, configs)
	}
	return append(all, File{csvFile, "results of each contender under each condition", a.writeCSV},
		File{benchFile, "all timed trials in Go's benchmark format, for benchstat", a.writeBench},
		journal, run, configs)
}

// WriteFiles writes everything but the run, the journal and the configurations into a results
// folder. It continues after an error and returns the first.
func (a *Report) WriteFiles(dir string) error {
	var first error
	for _, file := range a.Files() {
		if file.write == nil {
			continue
		}
		if err := sample.WriteFile(filepath.Join(dir, file.Name), file.write); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// writeCSV writes the rows of all tables.
func (a *Report) writeCSV(w io.Writer) error {
	return document.WriteCSV(w, a.resultColumns(), a.rows())
}

func partOf(r *analyze.Row, role string) analyze.Part {
	for _, p := range r.Parts {
		if p.Role == role {
			return p
		}
	}
	return analyze.Part{Role: role}
}

// benchCondition returns a condition as a part of a benchmark's name.
func benchCondition(c sample.Condition) string {
	name := fmt.Sprintf("cores=%d/connections=%d", c.Cores, c.Connections)
	for _, more := range []struct {
		key   string
		value float64
	}{{"rate", c.Rate}, {"gomaxprocs", float64(c.Procs)}} {
		if more.value > 0 {
			name += fmt.Sprintf("/%s=%s", more.key, document.Number(more.value))
		}
	}
	if s := c.Scenario.Name; s != "" {
		name += "/scenario=" + strings.NewReplacer(" ", "-", "/", "-").Replace(s)
	}
	return name
}

// writeBench writes every timed trial in Go's benchmark format, which benchstat reads.
func (a *Report) writeBench(w io.Writer) error {
	out := benchfmt.NewWriter(w)
	for i := range a.Records {
		r := &a.Records[i]
		if !r.Timed() {
			continue
		}
		result := a.loadResult(r)
		result.Config = []benchfmt.Config{
			{Key: "cpu", Value: []byte(a.Environment.CPU), File: true},
			{Key: "kernel", Value: []byte(a.Environment.Kernel), File: true},
			{Key: "tare", Value: []byte(a.Tool), File: true},
		}
		if err := out.Write(result); err != nil {
			return err
		}
	}
	return nil
}

// loadResult returns the figures of a timed trial under load in Go's benchmark format.
func (a *Report) loadResult(r *sample.Record) *benchfmt.Result {
	return &benchfmt.Result{
		Name: benchfmt.Name(fmt.Sprintf("Weigh/%s/contender=%s/%s", a.Experiment, r.Contender,
			benchCondition(r.Condition))),
		Iters: int(r.Load.Requests),
		Values: []benchfmt.Value{
			{Value: r.WeightUs(), Unit: "server-µs/req"},
			{Value: r.Load.PerSecond(), Unit: "req/s"},
			{Value: ms(r.Load.Latency.Quantile(0.5)), Unit: "p50-ms"},
			{Value: ms(r.Load.Latency.Quantile(0.99)), Unit: "p99-ms"},
			{Value: r.PerRequest("", sample.Voluntary), Unit: "waits/req"},
			{Value: r.PerRequest("", sample.Involuntary), Unit: "preemptions/req"},
			{Value: r.Sum("", sample.RSS), Unit: "rss-B"},
		},
	}
}
