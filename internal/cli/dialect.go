//go:build linux

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tarehq/tare/internal/dialect"
	"github.com/tarehq/tare/internal/dialect/ab"
	"github.com/tarehq/tare/internal/dialect/siege"
	"github.com/tarehq/tare/internal/dialect/wrk"
	"github.com/tarehq/tare/load"
)

// tool is a parsed command line of an emulated load generator.
type tool interface {
	Plan() load.Plan
	Begin(stdout, stderr io.Writer)
	Report(stdout, stderr io.Writer, r *load.Result) error
	// Footnotes explains where figures of the report mislead.
	Footnotes(r *load.Result) []string
}

// prober is a tool that tries to connect before the run.
type prober interface {
	Probe(ctx context.Context) error
}

// earlyExiter is a tool that exits early after too many failures.
type earlyExiter interface {
	GivesUp(e *load.Errors) bool
}

const noFootnotes = "--no-footnotes" // a flag of all emulations that no tool has

func dialectCommands(env Env) []*cobra.Command {
	return []*cobra.Command{
		dialectCommand(env, "wrk", exitOK, wrk.Parse),
		dialectCommand(env, "ab", exitFail, ab.Parse),
		dialectCommand(env, "siege", exitOK, siege.Parse),
	}
}

// dialectCommand returns the command that emulates a tool; interrupted is the tool's exit code
// after an interrupted run.
func dialectCommand[T tool](env Env, name string, interrupted int,
	parse func(args []string) (T, error)) *cobra.Command {
	return &cobra.Command{
		Use:   name,
		Short: "Generate load with " + name + "'s flags and print its report",
		Long: fmt.Sprintf(`Run tare's load generator with the flags of %s and print its report.

Footnotes on standard error explain misleading figures; %s omits them.
"tare %[1]s --help" lists the flags.`, name, noFootnotes),
		DisableFlagParsing: true,
		RunE: run(func(ctx context.Context, args []string) error {
			own, footnotes := splitFootnotes(args)
			t, err := parse(own)
			if err != nil {
				return exitAs(env, err)
			}
			if err := runTool(ctx, env, t, footnotes); err != nil {
				return err
			}
			if ctx.Err() != nil && interrupted != exitOK {
				return &exitError{code: interrupted}
			}
			return nil
		}),
	}
}

// splitFootnotes removes noFootnotes from a tool's command line.
func splitFootnotes(args []string) (own []string, footnotes bool) {
	end := slices.Index(args, "--")
	if end < 0 {
		end = len(args)
	}
	flags := slices.DeleteFunc(slices.Clone(args[:end]), func(arg string) bool { return arg == noFootnotes })
	return append(flags, args[end:]...), len(flags) == end
}

func runTool(ctx context.Context, env Env, t tool, footnotes bool) error {
	if p, ok := t.(prober); ok {
		if err := p.Probe(ctx); err != nil {
			return exitAs(env, err)
		}
	}
	t.Begin(env.Stdout, env.Stderr)
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	r, runErr := load.Run(ctx, planWithExit(t, giveUp))
	if r == nil {
		return runErr
	}
	err := t.Report(env.Stdout, env.Stderr, r)
	if footnotes {
		for _, note := range t.Footnotes(r) {
			fmt.Fprintln(env.Stderr, "note: "+note)
		}
	}
	return exitAs(env, err)
}

// planWithExit returns the tool's plan. Its Trace calls giveUp when the tool would exit early.
func planWithExit(t tool, giveUp func()) load.Plan {
	p := t.Plan()
	q, ok := t.(earlyExiter)
	if !ok {
		return p
	}
	trace := *cmp.Or(p.Trace, &load.Trace{})
	report := trace.Progress
	trace.Progress = func(g load.Progress) {
		switch {
		case q.GivesUp(&g.Errors):
			giveUp()
		case report != nil:
			report(g)
		}
	}
	p.Trace = &trace
	return p
}

// exitAs prints what the tool does, and exits with its code, if err is an exit of the tool.
func exitAs(env Env, err error) error {
	if e, ok := errors.AsType[*dialect.Exit](err); ok {
		fmt.Fprint(env.Stdout, e.Stdout)
		fmt.Fprint(env.Stderr, e.Stderr)
		return &exitError{code: e.Code}
	}
	return err
}
