package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/tarehq/tare/lab/contender"
)

// guardCommand is the process that weigh leaves watch over what it runs.
func guardCommand(env Env) *cobra.Command {
	return &cobra.Command{
		Use:    "guard",
		Short:  "End what another tare ran, should that one be killed",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: run(func(context.Context, []string) error {
			contender.Guard(env.Stdin)
			return nil
		}),
	}
}
