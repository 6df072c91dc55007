// Package report turns an analyzed run into what a person reads: a verdict, tables, charts, and
// files for other tools.
//
// All output comes from the tables of package analyze. The page, Markdown and the terminal's text are
// one document (page.go); the first screen is a part of it (brief.go). The files of a results folder
// are below, the verdict is in verdict.go.
package report

import (
	"cmp"
	"path/filepath"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/document"
	"github.com/tarehq/tare/internal/lab/sample"
)

// Report is an analyzed run with its texts, tables and charts.
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

// Names of a report's files in a results folder.
const (
	PageFile    = "report.html"
	textFile    = "report.md"
	csvFile     = "results.csv"
	targetsFile = "targets.csv" // in place of csvFile
)

// FileNames returns the names of the files that WriteFiles writes, whatever the run.
func FileNames() []string { return []string{PageFile, textFile, csvFile, targetsFile} }

// WriteFiles writes the report's files into a results folder. It continues after an error and
// returns the first.
func (a *Report) WriteFiles(dir string) error {
	table := csvFile
	if len(a.Run.Targets) > 0 {
		table = targetsFile
	}
	var first error
	for name, content := range map[string]string{
		PageFile: a.page(), textFile: a.document().Text(document.Form{Markdown: true}), table: a.csv(),
	} {
		first = cmp.Or(first, sample.WriteFile(filepath.Join(dir, name), []byte(content)))
	}
	return first
}

// csv returns the run's table: cases, streams, targets, or contenders under each condition.
func (a *Report) csv() string {
	switch {
	case a.Events != nil && len(a.streamTables()) > 0:
		var cases []*sample.Case
		for _, t := range a.streamTables() {
			cases = append(cases, t.cases...)
		}
		return document.CSV(streamColumns(), cases)
	case a.Events != nil:
		return document.CSV(a.caseColumns(), a.caseLines())
	case len(a.Run.Targets) > 0:
		return document.CSV(a.targetColumns(), a.Targets)
	}
	var rows []rowLine
	for i := range a.Tables {
		rows = append(rows, a.Tables[i].lines()...)
	}
	return document.CSV(a.resultColumns(), rows)
}
