package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarehq/tare/lab/report"
)

func reportCommand(env Env) *cobra.Command {
	var anyway bool
	c := &cobra.Command{
		Use:   "report A B",
		Short: "Set the results of two runs of weigh beside each other",
		Long: `Compare two results folders of tare weigh: what changed in versions and settings, and the ratios
of each contender to the control of its own run, with intervals. Runs of different machines, or
under different conditions, are not compared.`,
		Example: "  tare report results/2026-11-20T10-00-00 results/2026-11-21T10-00-00",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("report: want two results folders, got %d arguments", len(args))
			}
			return nil
		},
		RunE: run(func(_ context.Context, args []string) error {
			var sides [2]*report.Run
			for i, name := range args {
				r, err := report.Read(env.path(name))
				if err != nil {
					return usage(fmt.Errorf("report: %w", err))
				}
				sides[i] = r
			}
			two := report.Compare(sides[0], sides[1])
			if len(two.Mismatches) > 0 && !anyway {
				return usage(fmt.Errorf("report: these runs cannot be compared; --anyway does it all the same. They differ in\n  %s", strings.Join(two.Mismatches, "\n  ")))
			}
			return two.WriteText(env.Stdout)
		}),
	}
	c.Flags().BoolVar(&anyway, "anyway", false, "compare runs of different machines or conditions, too")
	return c
}
