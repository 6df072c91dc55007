package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/report"
)

// findMax are the flags of load that have it search for the highest rate that holds.
type findMax struct {
	on     bool
	search load.Search
}

func (f *findMax) define(c *cobra.Command) {
	set := c.Flags()
	set.BoolVar(&f.on, "find-max", false, "find the highest rate that the server holds, by runs of --duration (5s) at different rates")
	set.Var(&textFlag{kind: "goal", read: f.search.Goal.Set}, "slo", "with --find-max: `goal` that a rate has to keep to, such as 'p99<10ms,errors<0.1%'; of p50, p99.9 and the like, mean, max, errors")
	rate := func(to *float64) func(string) error {
		return func(text string) (err error) {
			*to, err = parseRate(text)
			return err
		}
	}
	set.Var(&textFlag{kind: "rate", read: rate(&f.search.From)}, "from", "with --find-max: first `rate` to try (default half of what a short closed loop reaches)")
	set.Var(&textFlag{kind: "rate", read: rate(&f.search.To)}, "to", "with --find-max: highest `rate` to try (default no bound)")
	set.Float64Var(&f.search.Precision, "precision", load.DefaultPrecision, "with --find-max: how near the answer is to be, as a `share` of the rate")
}

// ready completes the search by what other flags say.
func (f *findMax) ready(all *loadFlags) error {
	changed := all.command.Flags().Changed
	for _, name := range []string{"slo", "from", "to", "precision"} {
		if changed(name) && !f.on {
			return fmt.Errorf("load: --%s is for --find-max, which is not given", name)
		}
	}
	if !f.on {
		return nil
	}
	for _, name := range []string{"rate", "requests", "csv", "hdr", "bench", "html", "samples"} {
		if changed(name) {
			return fmt.Errorf("load: --find-max makes many runs, at rates of its own: it goes without --%s", name)
		}
	}
	if f.search.Precision == 0 {
		return errors.New("load: --precision 0 is never reached: want a share such as 0.02")
	}
	f.search.Step = load.DefaultStep
	if changed("duration") {
		f.search.Step = all.plan.Duration
	}
	all.plan.Duration = f.search.Step // for those who watch
	return nil
}

// foundRun is what --json writes.
type foundRun struct {
	*load.SearchResult
	About report.About `json:"run"`
}

// runFindMax carries out a search. Its exit code says whether any rate holds.
func runFindMax(ctx context.Context, env Env, flags *loadFlags) error {
	run := foundRun{About: about(flags)}
	run.About.Started = time.Now()
	for _, out := range flags.outputs.all { // the others are refused
		out.write = func(_ *report.Run, w io.Writer) error { return run.write(w) }
	}
	if err := flags.outputs.open(env); err != nil {
		return err
	}
	defer flags.outputs.close()
	watch := newLive(newProgress(env.Stderr, 0), &flags.plan)
	search := flags.find.search
	search.Tried = func(t load.Try) { watch.say("%s", tryLine(t)) }
	found, err := search.Find(ctx, flags.plan)
	watch.end()
	if found == nil || len(found.Tries) == 0 && ctx.Err() == nil {
		return loadFailure(nil, err)
	}
	run.SearchResult = found
	if !flags.outputs.printed() {
		if err := printFound(env.Stdout, found); err != nil {
			return err
		}
	}
	if err := flags.outputs.write(env, nil); err != nil {
		return err
	}
	switch {
	case ctx.Err() != nil && err != nil:
		return &exit{exitStop, errors.New("interrupted: the search was not over")}
	case err != nil:
		return loadFailure(nil, err)
	case found.Holds == 0:
		return &exit{code: exitFail}
	}
	return nil
}

func (r *foundRun) write(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false) // goals have < in them
	return e.Encode(r)
}

// tryLine tells of a try when it is over.
func tryLine(t load.Try) string {
	if t.Rate == 0 {
		return fmt.Sprintf("%9s/s  reached by a closed loop", report.Count(t.Achieved))
	}
	line := fmt.Sprintf("%9s/s  %-8s  p50 %-7s  p99 %-7s", report.Count(t.Rate), outcome(t), report.Duration(t.P50), report.Duration(t.P99))
	if len(t.Why) > 0 {
		line += "  " + strings.Join(t.Why, "; ")
	}
	return strings.TrimRight(line, " ")
}

func outcome(t load.Try) string {
	if t.Held {
		return "holds"
	}
	return "does not"
}

// printFound writes the answer, the rates that were tried, and their curve.
func printFound(out io.Writer, f *load.SearchResult) error {
	fmt.Fprintf(out, "%s\n%s\n\n", f.URL, answer(f))
	tries := slices.DeleteFunc(slices.Clone(f.Tries), func(t load.Try) bool { return t.Rate == 0 })
	slices.SortStableFunc(tries, func(a, b load.Try) int { return cmp.Compare(a.Rate, b.Rate) })
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "rate\tanswered\tp50\tp99\terrors\t\t\n")
	for _, t := range tries {
		fmt.Fprintf(w, "%s/s\t%s/s\t%s\t%s\t%.3g%%\t%s\t\n", report.Count(t.Rate), report.Count(t.Achieved),
			report.Duration(t.P50), report.Duration(t.P99), 100*t.ErrorShare, outcome(t))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := io.WriteString(out, newRateCurve(tries, f.Goal).String())
	return err
}

// answer is the sentence that a search is for.
func answer(f *load.SearchResult) string {
	holds := func() string {
		return fmt.Sprintf("%s requests/s: %s", report.Count(f.Holds), figures(f))
	}
	fails := func() string {
		return fmt.Sprintf("%s does not: %s", report.Count(f.Fails), whyNot(f))
	}
	switch {
	case f.Verdict == load.GeneratorBound && f.Holds > 0:
		return fmt.Sprintf("holds at least %s; at %s the generator, not the server, is the limit: %s", holds(), report.Count(f.Fails), whyNot(f))
	case f.Verdict == load.GeneratorBound:
		return fmt.Sprintf("nothing is known of the server: at %s requests/s the generator is the limit: %s", report.Count(f.Fails), whyNot(f))
	case f.Verdict == load.AllHolds:
		return fmt.Sprintf("holds %s; that is the highest rate that was to be tried", holds())
	case f.Verdict == load.NothingHolds:
		return "holds no rate: even " + fails()
	case f.Holds == 0:
		return fmt.Sprintf("no rate was confirmed in %d runs", len(f.Tries)) + unconfirmed(f)
	case f.Fails == 0:
		return fmt.Sprintf("holds at least %s; more was not tried in %d runs", holds(), len(f.Tries))
	case f.Verdict == load.Unsettled:
		return "holds " + holds() + "; " + fails() + "; what is between was not told apart in the runs there were"
	}
	return "holds " + holds() + "; " + fails()
}

// unconfirmed tells of the highest rate that held at all.
func unconfirmed(f *load.SearchResult) string {
	most := 0.0
	for _, t := range f.Tries {
		if t.Held {
			most = max(most, t.Rate)
		}
	}
	if most == 0 {
		return ""
	}
	return fmt.Sprintf("; %s requests/s held", report.Count(most))
}

// figures are those of the goal, at the rate that holds.
func figures(f *load.SearchResult) string {
	t := lastAt(f, f.Holds, true)
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

func whyNot(f *load.SearchResult) string { return strings.Join(lastAt(f, f.Fails, false).Why, "; ") }

// lastAt is the last try at a rate that came out so.
func lastAt(f *load.SearchResult, rate float64, held bool) load.Try {
	for _, t := range slices.Backward(f.Tries) {
		if t.Rate == rate && t.Held == held {
			return t
		}
	}
	return load.Try{}
}
