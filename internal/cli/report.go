//go:build linux

package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarehq/tare/internal/lab/report"
	"github.com/tarehq/tare/internal/lab/sample"
)

func reportCommand(env Env) *cobra.Command {
	var anyway bool
	c := &cobra.Command{
		Use:   "report A B",
		Short: "Compare the results of two runs of weigh",
		Long: `Compare two results folders of tare weigh: the changes of versions and settings, and each
contender's ratio to the control of its own run, with intervals. Runs on different machines or
under different conditions are rejected.`,
		Example: "  tare report results/2026-11-20T10-00-00 results/2026-11-21T10-00-00",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("report: want two results folders, got %d arguments", len(args))
			}
			return nil
		},
		RunE: run(func(_ context.Context, args []string) error {
			var sides [2]*sample.Run
			for i, name := range args {
				r, err := sample.Read(env.path(name))
				if err != nil {
					return usageError(fmt.Errorf("report: %w", err))
				}
				sides[i] = r
			}
			two := report.Compare(sides[0], sides[1])
			if len(two.Mismatches) > 0 && !anyway {
				return usageError(fmt.Errorf("report: these runs are not comparable (--anyway compares them nevertheless); they differ in\n  %s", strings.Join(two.Mismatches, "\n  ")))
			}
			return two.WriteText(env.Stdout)
		}),
	}
	c.Flags().BoolVar(&anyway, "anyway", false, "compare even runs on different machines or under different conditions")
	return c
}
