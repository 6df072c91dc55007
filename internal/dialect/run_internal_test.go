package dialect

import (
	"io"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
)

// impatient is a tool that exits at the first error.
type impatient struct{ trace *load.Trace }

func (i impatient) Plan() load.Plan                               { return load.Plan{Trace: i.trace} }
func (impatient) Begin(io.Writer, io.Writer)                      {}
func (impatient) Report(io.Writer, io.Writer, *load.Result) error { return nil }
func (impatient) Footnotes(*load.Result) []string                 { return nil }
func (impatient) GivesUp(e *load.Errors) bool                     { return e.Read > 0 }

// A run ends when the tool would have exited, and the tool's own progress is reported until then.
func TestRunEndsWhenTheToolWouldExit(t *testing.T) {
	reported, gaveUp := 0, 0
	for _, trace := range []*load.Trace{nil, {Progress: func(load.Progress) { reported++ }}} {
		p := planWithExit(impatient{trace}, func() { gaveUp++ })
		p.Trace.Progress(load.Progress{})
		p.Trace.Progress(load.Progress{Errors: load.Errors{Status: 1}})
		p.Trace.Progress(load.Progress{Errors: load.Errors{Read: 1}})
	}
	testkit.Equal(t, [...]int{reported, gaveUp}, [...]int{2, 2}, "it reported, and gave up")
}
