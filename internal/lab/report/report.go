// Package report turns an analyzed run into what a person reads: a verdict, tables, charts, and
// files for other tools.
//
// All output comes from the tables of package analyze. The page, Markdown and the terminal's text are
// one document (page.go); the first screen is a part of it (brief.go). CSV and Go's benchmark format
// are in files.go, the verdict is in verdict.go.
package report

import (
	"github.com/tarehq/tare/internal/lab/analyze"
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
