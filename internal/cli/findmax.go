//go:build linux

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/report"
)

// findMax holds the flags of load's search for the highest sustained rate.
type findMax struct {
	enabled bool
	search  load.Search
}

func (f *findMax) define(c *cobra.Command) {
	set := c.Flags()
	set.BoolVar(&f.enabled, "find-max", false,
		"find the highest rate that the server sustains, in runs of --duration (5s) at different rates")
	set.Var(parsed("goal", &f.search.Goal, load.ParseGoal), "slo",
		"with --find-max, require this `GOAL`: bounds of mean, max, errors and percentiles, such as 'p99<10ms,errors<0.1%' (default none)")
	set.Var(parsed("rate", &f.search.From, parseRate), "from",
		"with --find-max, start at this `RATE` (default half of what a short closed loop reaches)")
	set.Var(parsed("rate", &f.search.To, parseRate), "to",
		"with --find-max, try at most this `RATE` (default unlimited)")
	set.Float64Var(&f.search.Precision, "precision", load.DefaultPrecision,
		"with --find-max, end when the rate is known to this `SHARE`")
}

func (f *findMax) complete(all *loadFlags) error {
	if err := errors.Join(f.search.Goal.CheckAbsolute(), all.failIf.CheckAbsolute()); err != nil || !f.enabled {
		return err
	}
	if f.search.Precision == 0 {
		return errors.New("load: --precision 0 cannot be reached: want a share such as 0.02")
	}
	f.search.Step = load.DefaultStep
	if all.command.Flags().Changed("duration") {
		f.search.Step = all.plan.Duration
	}
	all.plan.Duration = f.search.Step // for the live display
	return nil
}

type searchReport struct {
	*load.SearchResult
	About report.About `json:"run"`
	Error string       `json:"error,omitempty"` // why the search ended early
}

// runFindMax runs a search. It fails if no rate was sustained.
func runFindMax(ctx context.Context, env Env, flags *loadFlags) error {
	run := searchReport{About: about(flags)}
	for _, out := range flags.outputs.all { // ready rejects all others
		out.write = func(_ *report.Run, w io.Writer) error { return writeJSON(w, &run) }
	}
	if err := flags.outputs.open(env); err != nil {
		return usageError(err)
	}
	defer flags.outputs.close()
	watch := newLive(newProgress(env.Stderr), &flags.plan)
	search := flags.find.search
	search.Tried = func(t load.Try) { watch.display.print("%s", tryLine(t)) }
	return flags.generate(ctx, env, watch.display, func(runPlan runFunc) (err error) {
		search.Run = runPlan
		run.SearchResult, err = search.Find(ctx, flags.plan)
		watch.display.end()
		return run.show(ctx, env, flags, err)
	})
}

// show writes what a search found. err is the search's error.
func (r *searchReport) show(ctx context.Context, env Env, flags *loadFlags, err error) error {
	found := r.SearchResult
	if found == nil {
		return loadFailure(nil, err)
	}
	if err != nil {
		r.Error = err.Error()
	}
	if !flags.outputs.usesStdout() && (len(found.Tries) > 0 || ctx.Err() != nil) {
		printSearch(env.Stdout, found)
	}
	if err := flags.outputs.write(env, nil); err != nil {
		return err
	}
	switch {
	case ctx.Err() != nil && err != nil:
		return &exitError{exitStop, errors.New("interrupted: the search is incomplete")}
	case err != nil:
		return loadFailure(nil, err)
	case found.Sustained == 0:
		return &exitError{code: exitFail}
	}
	return nil
}

func tryLine(t load.Try) string {
	if t.Rate == 0 {
		return fmt.Sprintf("%9s/s  reached by a closed loop", report.Count(t.Achieved))
	}
	line := fmt.Sprintf("%9s/s  %-8s  p50 %-7s  p99 %-7s", report.Count(t.Rate), outcome(t), report.Duration(t.P50),
		report.Duration(t.P99))
	if len(t.Why) > 0 {
		line += "  " + strings.Join(t.Why, "; ")
	}
	return strings.TrimRight(line, " ")
}

func outcome(t load.Try) string {
	if t.Sustained {
		return "sustained"
	}
	return "failed"
}

func printSearch(out io.Writer, f *load.SearchResult) {
	fmt.Fprintf(out, "%s\n%s\n\n", f.URL, report.Note(searchSentence(f)))
	tries := slices.DeleteFunc(slices.Clone(f.Tries), func(t load.Try) bool { return t.Rate == 0 })
	slices.SortStableFunc(tries, func(a, b load.Try) int { return cmp.Compare(a.Rate, b.Rate) })
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "rate\tresponses\tp50\tp99\terrors\t\t\n")
	for _, t := range tries {
		fmt.Fprintf(w, "%s/s\t%s/s\t%s\t%s\t%.3g%%\t%s\t\n", report.Count(t.Rate), report.Count(t.Achieved),
			report.Duration(t.P50), report.Duration(t.P99), 100*t.ErrorShare, outcome(t))
	}
	_ = w.Flush()
}

func searchSentence(f *load.SearchResult) string {
	sustains := func() string {
		return fmt.Sprintf("%s requests/s: %s", report.Count(f.Sustained), figures(f))
	}
	fails := func() string {
		return fmt.Sprintf("fails at %s: %s", report.Count(f.Failed), failureReasons(f))
	}
	switch {
	case f.Verdict == load.GeneratorBound && f.Sustained > 0:
		return fmt.Sprintf("sustains at least %s; at %s requests/s the generator, not the server, is the limit: %s",
			sustains(), report.Count(f.Failed), failureReasons(f))
	case f.Verdict == load.GeneratorBound:
		return fmt.Sprintf("no result for the server: at %s requests/s the generator is the limit: %s",
			report.Count(f.Failed), failureReasons(f))
	case f.Verdict == load.AllSustained:
		return fmt.Sprintf("sustains %s; this is the highest allowed rate", sustains())
	case f.Verdict == load.NoneSustained:
		return "sustains no rate: " + fails()
	case f.Sustained == 0:
		return fmt.Sprintf("no rate was confirmed in %d runs", len(f.Tries)) + unconfirmedClause(f)
	case f.Failed == 0:
		return fmt.Sprintf("sustains at least %s; higher rates were not tried in %d runs", sustains(), len(f.Tries))
	case f.Verdict == load.Unsettled:
		return "sustains " + sustains() + "; " + fails() + "; there were too few runs to narrow the gap"
	}
	return "sustains " + sustains() + "; " + fails()
}

func unconfirmedClause(f *load.SearchResult) string {
	most := 0.0
	for _, t := range f.Tries {
		if t.Sustained {
			most = max(most, t.Rate)
		}
	}
	if most == 0 {
		return ""
	}
	return fmt.Sprintf("; %s requests/s were sustained at least once", report.Count(most))
}

// figures returns the goal's figures at the sustained rate.
func figures(f *load.SearchResult) string {
	t := lastTry(f, f.Sustained, true)
	if t.Result == nil {
		return ""
	}
	var all []string
	for _, b := range f.Goal.Bounds {
		all = append(all, b.Name()+" "+t.Figure(b))
	}
	if len(all) == 0 {
		all = append(all, "p99 "+report.Duration(t.P99))
	}
	return strings.Join(all, ", ")
}

func failureReasons(f *load.SearchResult) string {
	return strings.Join(lastTry(f, f.Failed, false).Why, "; ")
}

func lastTry(f *load.SearchResult, rate float64, sustained bool) load.Try {
	for _, t := range slices.Backward(f.Tries) {
		if t.Rate == rate && t.Sustained == sustained {
			return t
		}
	}
	return load.Try{}
}
