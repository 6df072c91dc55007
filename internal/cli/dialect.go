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

// tool is a command line of another load generator: how it is run here, and what it prints.
type tool interface {
	Plan() load.Plan
	Begin(stdout, stderr io.Writer)
	Report(stdout, stderr io.Writer, r *load.Result) error
	// Footnotes say where figures of the report mislead.
	Footnotes(r *load.Result) []string
}

// prober is a tool that tries to connect before all else.
type prober interface {
	Probe(ctx context.Context) error
}

// quitter is a tool that ends before its time when too much goes wrong.
type quitter interface {
	GivesUp(e *load.Errors) bool
}

// ending is an error that a tool has words of its own for.
type ending interface {
	error
	End(stdout, stderr io.Writer) (code int)
}

// noFootnotes is the one flag that all dialects have and no tool does.
const noFootnotes = "--no-footnotes"

func dialectCommands(env Env) []*cobra.Command {
	return []*cobra.Command{
		dialectCommand(env, "wrk", exitOK, wrk.Parse),
		dialectCommand(env, "ab", exitFail, ab.Parse),
		dialectCommand(env, "siege", exitOK, siege.Parse),
	}
}

// dialectCommand is the command that stands in for the tool of a name, with its exit code after a
// run that was interrupted.
func dialectCommand[T tool](env Env, name string, interrupted int, parse func(args []string) (T, error)) *cobra.Command {
	return &cobra.Command{
		Use:   name,
		Short: "Generate load by the command line of " + name + ", and report as it does",
		Long: fmt.Sprintf(`Understand the command line of %s, and print its report, of load that tare generates.

Where its figures mislead, footnotes on standard error say so, unless %s is among
the flags. "tare %[1]s --help" lists the flags.`, name, noFootnotes),
		DisableFlagParsing: true,
		RunE: run(func(ctx context.Context, args []string) error {
			own, footnotes := takeOurs(args)
			t, err := parse(own)
			if err != nil {
				return endAs(env, err)
			}
			if err := speak(ctx, env, t, footnotes); err != nil {
				return err
			}
			if ctx.Err() != nil && interrupted != exitOK {
				return &exit{code: interrupted}
			}
			return nil
		}),
	}
}

// takeOurs takes from a command line what is not the tool's.
func takeOurs(args []string) (own []string, footnotes bool) {
	end := slices.Index(args, "--")
	if end < 0 {
		end = len(args)
	}
	flags := slices.DeleteFunc(slices.Clone(args[:end]), func(arg string) bool { return arg == noFootnotes })
	return append(flags, args[end:]...), len(flags) == end
}

// speak runs the plan of a tool and reports as that does.
func speak(ctx context.Context, env Env, t tool, footnotes bool) error {
	if p, ok := t.(prober); ok {
		if err := p.Probe(ctx); err != nil {
			return endAs(env, err)
		}
	}
	t.Begin(env.Stdout, env.Stderr)
	ctx, giveUp := context.WithCancel(ctx)
	defer giveUp()
	r, runErr := load.Run(ctx, planOf(t, giveUp))
	if r == nil {
		return runErr
	}
	err := t.Report(env.Stdout, env.Stderr, r)
	exited, ok := errors.AsType[*dialect.ExitError](err)
	if err != nil && !ok {
		return err
	}
	if footnotes {
		for _, note := range t.Footnotes(r) {
			fmt.Fprintln(env.Stderr, "note: "+note)
		}
	}
	if ok {
		return &exit{code: exited.Code}
	}
	return nil
}

// planOf returns the tool's plan, which has giveUp called when the tool would.
func planOf(t tool, giveUp func()) load.Plan {
	p := t.Plan()
	q, ok := t.(quitter)
	if !ok {
		return p
	}
	trace := *cmp.Or(p.Trace, &load.Trace{})
	tell := trace.Progress
	trace.Progress = func(g load.Progress) {
		switch {
		case q.GivesUp(&g.Errors):
			giveUp()
		case tell != nil:
			tell(g)
		}
	}
	p.Trace = &trace
	return p
}

// endAs ends a command as the tool does, if that has words for err.
func endAs(env Env, err error) error {
	if e, ok := errors.AsType[ending](err); ok {
		return &exit{code: e.End(env.Stdout, env.Stderr)}
	}
	return err
}
