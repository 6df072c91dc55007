package dialect

import (
	"context"
	"fmt"
	"io"

	"github.com/tarehq/tare/load"
)

// Tool is a parsed command line of an emulated load generator.
type Tool interface {
	// Plan returns the plan of the run. It calls giveUp when the tool would exit early.
	Plan(giveUp func()) load.Plan
	Begin(stdout, stderr io.Writer)
	Report(stdout, stderr io.Writer, r *load.Result) error
	// Footnotes explains where figures of the report mislead.
	Footnotes(r *load.Result) []string
}

// prober is a tool that tries to connect before the run.
type prober interface {
	Probe(ctx context.Context) error
}

// Run runs a tool and prints its output. The error is an *Exit if the tool exits without a report,
// or with a code other than 0.
func Run(ctx context.Context, t Tool, stdout, stderr io.Writer, footnotes bool) error {
	if p, ok := t.(prober); ok {
		if err := p.Probe(ctx); err != nil {
			return err
		}
	}
	t.Begin(stdout, stderr)
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	r, err := load.Run(ctx, t.Plan(giveUp))
	if r == nil {
		return err
	}
	err = t.Report(stdout, stderr, r)
	if footnotes {
		for _, note := range t.Footnotes(r) {
			fmt.Fprintln(stderr, "note: "+note)
		}
	}
	return err
}
