//go:build linux

package cli

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarehq/tare/internal/stat"
	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/compare"
	"github.com/tarehq/tare/load/report"
)

func loadCompareCommand(env Env) *cobra.Command {
	var failIf load.Goal
	c := &cobra.Command{
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
			if err := failIf.CheckRelative(); err != nil {
				return usageError(err)
			}
			c, err := compare.Compare(a, b)
			if err != nil {
				return usageError(err)
			}
			all, err := c.Judge(failIf)
			if err != nil {
				return usageError(err)
			}
			_ = c.WriteText(env.Stdout)
			var n [3]int // by outcome
			for i, o := range all {
				fmt.Fprintf(env.Stdout, "%s: %s\n", failIf.Bounds[i], o)
				n[o]++
			}
			return outcomesError(n, nil)
		}),
	}
	c.Flags().Var(parsed("bounds", &failIf, load.ParseGoal), "fail-if",
		"exit with 0 if B is shown to hold these `BOUNDS` of rps, mean, percentiles or errors, with 1 if it violates one, and\nwith 3 if the runs cannot tell: 'p99>+10%,errors>0.1%'")
	return c
}

// outcomesError returns nil if all bounds hold, and an error with exitFail if one is violated.
// Otherwise the error has exitUndecided, also if the run failed. n counts the bounds by outcome.
func outcomesError(n [3]int, runErr error) error {
	switch {
	case n[stat.Violated] > 0:
		return &exitError{exitFail, fmt.Errorf("--fail-if: %d violated; see above", n[stat.Violated])}
	case runErr != nil:
		return &exitError{exitUndecided, runErr}
	case n[stat.Undecided] > 0:
		return &exitError{exitUndecided, fmt.Errorf("--fail-if: %d undecided; see above", n[stat.Undecided])}
	}
	return nil
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
