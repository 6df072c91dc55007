//go:build linux

package cli

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarehq/tare/load/compare"
	"github.com/tarehq/tare/load/report"
)

func loadCompareCommand(env Env) *cobra.Command {
	return &cobra.Command{
		Use:   "compare A.json B.json",
		Short: "Compare two runs and report which differences exceed chance",
		Long: `Compare two results of tare load --json: ratios of rate, latency, errors and cost, with 95 %
intervals computed from the variation between seconds. If a side lists several runs, separated by
commas, the intervals include the variation between runs.`,
		Example: "  tare load http://127.0.0.1:8080/ --json=before.json\n  tare load compare before.json after.json\n  tare load compare a1.json,a2.json,a3.json b1.json,b2.json,b3.json",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 2 {
				return fmt.Errorf("compare: want two results, got %d arguments", len(args))
			}
			return nil
		},
		RunE: run(func(_ context.Context, args []string) error {
			a, err := readSide(env, args[0])
			if err != nil {
				return usageError(err)
			}
			b, err := readSide(env, args[1])
			if err != nil {
				return usageError(err)
			}
			c, err := compare.Compare(a, b)
			if err != nil {
				return usageError(err)
			}
			return c.WriteText(env.Stdout)
		}),
	}
}

// readSide reads the results of one side: file names separated by commas.
func readSide(env Env, names string) (compare.Side, error) {
	side := compare.Side{Name: names}
	for name := range strings.SplitSeq(names, ",") {
		r, err := readRun(env.path(name))
		if err != nil {
			return side, fmt.Errorf("compare: %q: %w", name, err)
		}
		side.Runs = append(side.Runs, r)
	}
	return side, nil
}

func readRun(name string) (*report.Run, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return report.Read(f)
}
