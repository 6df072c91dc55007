//go:build linux

package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarehq/tare/internal/lab/report"
	"github.com/tarehq/tare/internal/lab/sample"
)

func reportCommand(env Env) *cobra.Command {
	var anyway, details, badge, docs bool
	var pack string
	c := &cobra.Command{
		Use:   "report DIR [DIR]",
		Short: "Show the results of a run of weigh again, or compare two runs",
		Long: `Show the results folder of a run of tare weigh again, also of one that was killed, and write its
report anew. With two folders, compare them: the changes of versions and settings, and each
contender's ratio to the control of its own run, with intervals. Runs on different machines or
under different conditions are rejected.`,
		Example: `  tare report results/2026-11-20T10-00-00
  tare report results/2026-11-20T10-00-00 results/2026-11-21T10-00-00`,
		Args: func(c *cobra.Command, args []string) error {
			err := checkFlags(c.Flags(), nil, []exclusion{{"anyway", "details badge pack docs", ""},
				{"details", "badge pack docs", ""}, {"badge", "pack docs", ""}, {"pack", "docs", ""}})
			if err != nil {
				return fmt.Errorf("report: %w", err)
			}
			if docs && len(args) > 0 {
				return fmt.Errorf("report: --docs: want no arguments, got %q", args)
			}
			if !docs && len(args) != 1 && len(args) != 2 {
				return fmt.Errorf("report: want one results folder or two, got %d arguments", len(args))
			}
			return nil
		},
	}
	c.RunE = run(func(_ context.Context, args []string) error {
		switch {
		case docs:
			return fillQuotes(env)
		case len(args) == 1 && anyway:
			return usageError(errors.New("report: --anyway requires two results folders"))
		case len(args) == 2 && (details || badge || pack != ""):
			return usageError(errors.New("report: --details, --badge and --pack require a single results folder"))
		case len(args) == 2:
			return compareRuns(env, args, anyway)
		}
		dir := env.path(args[0])
		run, err := readResults(dir)
		switch {
		case err != nil:
			return err
		case pack != "":
			packed, err := run.Pack()
			if err != nil {
				return err
			}
			return sample.WriteFile(env.path(pack), packed)
		case badge:
			return report.New(run).WriteBadge(env.Stdout)
		case strings.HasSuffix(dir, sample.PackedSuffix):
			dir = "" // there is no folder to write the report to
		}
		return showResults(env, report.New(run), dir, details, nil)
	})
	c.Flags().BoolVar(&anyway, "anyway", false, "compare even runs on different machines or under different conditions")
	c.Flags().BoolVar(&details, "details", false, "print all tables, differences and notes, which the report also has, not one screen")
	c.Flags().BoolVar(&badge, "badge", false, "only print the result as JSON for an endpoint badge of shields.io")
	c.Flags().StringVar(&pack, "pack", "", "only write the run with all its trials as one small `FILE`, which report also shows")
	c.Flags().BoolVar(&docs, "docs", false, "write figures of the packed runs in docs/results into the documents of the checkout in this folder")
	return c
}

func fillQuotes(env Env) error {
	changed, err := report.FillQuotes(env.path("."), false)
	for _, name := range changed {
		fmt.Fprintln(env.Stdout, name)
	}
	if err != nil {
		return fmt.Errorf("report: --docs: %w", err)
	}
	return nil
}

func readResults(dir string) (*sample.Run, error) {
	run, err := sample.Read(dir)
	if err != nil {
		err = usageError(fmt.Errorf("report: %w", err))
	}
	return run, err
}

func compareRuns(env Env, names []string, anyway bool) error {
	var sides [2]*sample.Run
	for i, name := range names {
		r, err := readResults(env.path(name))
		if err != nil {
			return err
		}
		sides[i] = r
	}
	two := report.Compare(sides[0], sides[1])
	if len(two.Mismatches) > 0 && !anyway {
		return usageError(fmt.Errorf("report: these runs are not comparable (--anyway compares them nevertheless); they differ in\n  %s", strings.Join(two.Mismatches, "\n  ")))
	}
	_, err := io.WriteString(env.Stdout, two.Text())
	return err
}
