//go:build linux

package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/tarehq/tare/internal/dialect"
	"github.com/tarehq/tare/internal/dialect/ab"
	"github.com/tarehq/tare/internal/dialect/siege"
	"github.com/tarehq/tare/internal/dialect/wrk"
)

const noFootnotes = "--no-footnotes" // a flag of all emulations that no tool has

func dialectCommands(env Env) []*cobra.Command {
	return []*cobra.Command{
		dialectCommand(env, "wrk", exitFail, exitOK, wrk.Parse),
		dialectCommand(env, "ab", ab.ExitUsage, exitFail, ab.Parse),
		dialectCommand(env, "siege", exitFail, exitOK, siege.Parse),
	}
}

// dialectCommand returns the command that emulates a tool. The tool's exit code is usage after an
// invalid command line, and interrupted after an interrupted run.
func dialectCommand[T dialect.Tool](env Env, name string, usage, interrupted int,
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
				return exitAs(env, dialect.Usage(name, err, usage))
			}
			err = dialect.Run(ctx, t, env.Stdout, env.Stderr, footnotes)
			if err == nil && ctx.Err() != nil && interrupted != exitOK {
				return &exitError{code: interrupted}
			}
			return exitAs(env, err)
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

// exitAs prints what the tool does, and exits with its code, if err is an exit of the tool.
func exitAs(env Env, err error) error {
	if e, ok := errors.AsType[*dialect.Exit](err); ok {
		fmt.Fprint(env.Stdout, e.Stdout)
		fmt.Fprint(env.Stderr, e.Stderr)
		return &exitError{code: e.Code}
	}
	return err
}
