//go:build linux

package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tarehq/tare/internal/lab/contender"
)

// guardCommand stops the programs of weigh if weigh is killed.
func guardCommand(env Env) *cobra.Command {
	return &cobra.Command{
		Use:    "guard",
		Short:  "Stop the programs of another tare if that one is killed",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: run(func(context.Context, []string) error {
			contender.Guard(env.Stdin)
			return nil
		}),
	}
}
