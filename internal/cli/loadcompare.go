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
		Short: "Say by how much two runs differ, and whether that is more than chance",
		Long: `Compare two results that tare load --json wrote: ratios of rate, latency, errors and cost, with
intervals of 95 % that are made of the unrest from second to second. Of several runs a side, with
commas between their names, the intervals hold also what differs from run to run.`,
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
				return usage(err)
			}
			b, err := readSide(env, args[1])
			if err != nil {
				return usage(err)
			}
			c, err := compare.Compare(a, b)
			if err != nil {
				return usage(err)
			}
			return c.WriteText(env.Stdout)
		}),
	}
}

// readSide reads the results of one side: files with commas between their names.
func readSide(env Env, names string) (compare.Side, error) {
	side := compare.Side{Name: names}
	for name := range strings.SplitSeq(names, ",") {
		r, err := readRun(env.path(name))
		if err != nil {
			return side, fmt.Errorf("compare: %s: %w", name, err)
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
