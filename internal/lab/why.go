package lab

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/equal"
	"github.com/tarehq/tare/internal/lab/explain"
	"github.com/tarehq/tare/internal/lab/sample"
)

// whyBlocks is the number of blocks of a counter-experiment. Causes that are reported explain most
// of a difference, so that its change shows without an interval.
const whyBlocks = 3

// counterExperiment tests the cause of a finding: it measures a contender with one setting changed.
type counterExperiment struct {
	row       *analyze.Row
	condition sample.Condition
	finding   *explain.Finding
	toggled   *contender.Contender
	to        string // the changed setting, as after "with"
}

// why carries out the counter-experiments and adds their results to the run.
func (w *runner) why(ctx context.Context) error {
	all, err := w.counterExperiments(ctx)
	if err != nil {
		return err
	}
	for i := range all {
		tested, err := w.test(ctx, &all[i])
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return err
		}
		w.run.CounterExperiments = append(w.run.CounterExperiments, tested)
	}
	return nil
}

// counterExperiments returns one for each finding whose setting can be changed.
func (w *runner) counterExperiments(ctx context.Context) (all []counterExperiment, err error) {
	a := analyze.Analyze(w.run)
	for i := range a.Tables {
		t := &a.Tables[i]
		for j := range t.Why {
			why := &t.Why[j]
			c := w.contenders[why.Name]
			if c == nil || why.Kind.IsCopy() {
				continue
			}
			for k := range why.Findings {
				f := &why.Findings[k]
				whose := c
				if f.Counter.ChangesControl {
					whose = w.contenders[w.experiment.Control]
				}
				toggled, to, err := w.toggled(ctx, whose, f.Counter.Setting)
				if err != nil {
					return nil, err
				}
				if toggled != nil {
					all = append(all, counterExperiment{why.Row, t.Condition, f, toggled, cmp.Or(to, f.Counter.To)})
				}
			}
		}
	}
	return all, nil
}

// rareGC makes Go's garbage collector run a quarter as often as with the default, 100.
const rareGC = "GOGC=400"

// toggled returns the contender with a setting changed, by its contender.yaml or by a general rule,
// and a description of the change. It returns nil if neither knows the setting.
func (w *runner) toggled(ctx context.Context, c *contender.Contender,
	s explain.Setting) (as *contender.Contender, to string, err error) {
	i := slices.IndexFunc(c.Toggles, func(t contender.Toggle) bool { return t.Setting == string(s) })
	is := *c
	switch {
	case i >= 0 && c.Toggles[i].Contender != "":
		as, err := w.other(ctx, c.Toggles[i].Contender)
		return as, c.Toggles[i].To, err
	case i >= 0:
		is.Spec, to = c.Toggled(&c.Toggles[i]), c.Toggles[i].To
	case s == explain.Memory && c.RunBy() == "Go":
		is.Spec = c.Toggled(&contender.Toggle{Env: []string{rareGC}})
	default:
		return nil, "", nil
	}
	return &is, to, nil
}

// other returns a contender, and prepares it if it does not take part. It returns nil if that
// fails.
func (w *runner) other(ctx context.Context, name string) (*contender.Contender, error) {
	if c := w.contenders[name]; c != nil {
		return c, nil
	}
	spec, err := w.spec(name)
	if err != nil {
		return nil, err
	}
	c, err := w.Tools.Prepare(ctx, spec)
	if err != nil && ctx.Err() == nil {
		w.recorder.Note("%s cannot be measured: %v.", spec.Title, err)
		return nil, nil
	}
	return c, err
}

// test carries out one counter-experiment: blocks of the contender, of the contender with the
// setting changed and of the control.
func (w *runner) test(ctx context.Context, x *counterExperiment) (sample.CounterExperiment, error) {
	f := x.finding
	tested := sample.CounterExperiment{
		Contender: x.row.Name, Condition: x.condition, Cause: string(f.Cause), Setting: string(f.Counter.Setting),
		To: x.to, Explains: string(f.Explains), ChangesControl: f.Counter.ChangesControl,
	}
	if tested.Failure = w.responseChange(ctx, x); tested.Failure != "" || ctx.Err() != nil {
		return tested, ctx.Err()
	}
	const as, toggled, control = "as it is", "toggled", "control"
	sides := map[string]*contender.Contender{
		as: w.contenders[x.row.Name], toggled: x.toggled, control: w.contenders[w.experiment.Control],
	}
	values := make(map[int]map[string]float64)
	err := w.carryOut(ctx, &series{
		conditions: []sample.Condition{x.condition}, together: true,
		members: func(sample.Condition) []string { return []string{as, toggled, control} }, control: control,
		what: " while testing the explanations,", contenders: sides, blocks: whyBlocks, measure: w.bench.Measure,
		keep: func(rec sample.Record) {
			if rec.Failure != "" {
				tested.Failure = rec.Failure
				return
			}
			if values[rec.Block] == nil {
				values[rec.Block] = make(map[string]float64)
			}
			values[rec.Block][rec.Contender] = quantity(&rec, f.Explains)
		},
	})
	if err != nil {
		return tested, err
	}
	for block := 1; block <= whyBlocks; block++ {
		if v := values[block]; len(v) == len(sides) {
			tested.Of, tested.Toggled, tested.Control = append(tested.Of, v[as]), append(tested.Toggled, v[toggled]),
				append(tested.Control, v[control])
		}
	}
	if len(tested.Of) > 0 {
		tested.Failure = ""
	}
	return tested, nil
}

// quantity returns the figure of a record that a finding explains.
func quantity(r *sample.Record, q explain.Quantity) float64 {
	switch q {
	case explain.Rate:
		return sample.Rate.Of(r)
	case explain.Latency:
		return r.Load.Latency.Mean().Seconds() * 1e6
	}
	return sample.CPU.Of(r)
}

// responseChange describes how the changed setting changes the response's status or body, or
// returns "". Header fields and the connection may change: that may be what the setting does.
func (w *runner) responseChange(ctx context.Context, x *counterExperiment) string {
	all, err := w.request(ctx, x.row.Entrant, x.toggled)
	if err != nil {
		return err.Error()
	}
	for _, d := range equal.Compare(x.row.Response, all[0]) {
		if slices.Contains([]string{"status", "body", "body length"}, d.What) {
			return fmt.Sprintf("with %s it responds differently: %s", x.to, d)
		}
	}
	return ""
}
