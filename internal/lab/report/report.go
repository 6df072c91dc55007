// Package report turns an analyzed run into what a person reads: a verdict, tables, charts, and
// files for other tools.
//
// All output comes from the tables of package analyze. The page, Markdown and the terminal's text are
// one document (page.go); the first screen is a part of it (brief.go). The files of a results folder
// are below, the verdict is in verdict.go.
package report

import (
	"io"
	"path/filepath"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/document"
	"github.com/tarehq/tare/internal/lab/sample"
)

// Report is an analyzed run with what a person reads about it.
type Report struct {
	*analyze.Analysis
	Tables []Table // those of the analysis
}

// Table is a table of an analysis with its texts and charts.
type Table struct{ *analyze.Table }

// New analyzes a run.
func New(run *sample.Run) *Report {
	r := &Report{Analysis: analyze.Analyze(run)}
	for i := range r.Analysis.Tables {
		r.Tables = append(r.Tables, Table{&r.Analysis.Tables[i]})
	}
	return r
}

// Names of the files in a results folder.
const (
	PageFile = "report.html"
	textFile = "report.md"
	csvFile  = "results.csv"
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
			var cases []*sample.Case
			for _, t := range a.streamTables() {
				cases = append(cases, t.cases...)
			}
			return document.WriteCSV(w, streamColumns(), cases)
		}}, run)
	case a.Events != nil:
		return append(all, File{csvFile, "the table of cases", func(w io.Writer) error {
			return document.WriteCSV(w, a.caseColumns(), a.caseLines())
		}}, run)
	case len(a.Run.Targets) > 0:
		return append(all, File{targetsFile, "the targets, with the figures that they limit", func(w io.Writer) error {
			return document.WriteCSV(w, a.targetColumns(), a.Targets)
		}}, journal, run, configs)
	}
	return append(all, File{csvFile, "results of each contender under each condition", a.writeCSV},
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

func (a *Report) writeCSV(w io.Writer) error {
	var rows []rowLine
	for i := range a.Tables {
		rows = append(rows, a.Tables[i].lines()...)
	}
	return document.WriteCSV(w, a.resultColumns(), rows)
}
