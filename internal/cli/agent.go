//go:build linux

package cli

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tarehq/tare/load/agent"
)

// agentCommand runs one process of a load that several processes generate.
func agentCommand(env Env) *cobra.Command {
	var silence time.Duration
	c := &cobra.Command{
		Use:   "agent",
		Short: "Generate the load that a controller plans",
		Long: `Read a plan on standard input, wait for the start, and write a record of each second and the result
to standard output. All are JSON objects, one a line. "tare load --on" and "tare load --kubernetes"
start agents by themselves; docs/load-many.md describes the messages.

It listens nowhere and writes no file. It ends when its standard input does.`,
		Example: `  (echo '{"plan":{"url":"http://10.0.0.1:8080/","durationNs":5000000000}}'; echo '{"start":{}}'; sleep 8) | tare agent`,
		Args:    cobra.NoArgs,
		RunE: run(func(ctx context.Context, _ []string) error {
			caller, _, _ := strings.Cut(os.Getenv("SSH_CONNECTION"), " ")
			err := agent.Serve(ctx, env.Stdin, env.Stdout,
				agent.Options{Tool: "tare " + version(), Silence: silence, Caller: caller})
			if ctx.Err() != nil {
				return &exitError{exitStop, errors.New("interrupted")}
			}
			return err
		}),
	}
	c.Flags().DurationVar(&silence, "silence", 0, "end if nothing arrives on standard input for `TIME` (default never)")
	return c
}
