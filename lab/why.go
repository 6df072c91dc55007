package lab

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/tarehq/tare/lab/contender"
	"github.com/tarehq/tare/lab/equal"
	"github.com/tarehq/tare/lab/explain"
	"github.com/tarehq/tare/lab/report"
	"github.com/tarehq/tare/lab/trial"
)

// whyBlocks is how many blocks a counter-experiment has. It asks whether a difference goes, which
// takes no interval: a cause that is named is most of it.
const whyBlocks = 3

// question is a finding whose counter-experiment can be carried out.
type question struct {
	row       *report.Row
	condition trial.Condition
	finding   *explain.Finding
	toggled   *contender.Contender
	to        string // what the setting is changed to
}

// why carries out the counter-experiments of what explains the run's differences, and adds them
// to it.
func (w *weighing) why(ctx context.Context) error {
	questions, err := w.questions(ctx)
	if err != nil {
		return err
	}
	for i := range questions {
		tested, err := w.answer(ctx, &questions[i])
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

// questions are the findings with a setting that can be changed here.
func (w *weighing) questions(ctx context.Context) (all []question, err error) {
	a := report.Analyze(w.run)
	for i := range a.Tables {
		t := &a.Tables[i]
		for j := range t.Why {
			why := &t.Why[j]
			c := w.contenders[why.Name]
			if c == nil || why.Kind == report.Twin {
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
					all = append(all, question{why.Row, t.Condition, f, toggled, cmp.Or(to, f.Counter.To)})
				}
			}
		}
	}
	return all, nil
}

// rarely has Go's collector run a quarter as often as it does by itself: GOGC is 100 then.
const rarely = "GOGC=400"

// toggled returns the contender with a setting changed: as its file says, or as can be done with
// any, and what that is; nil if it is not known.
func (w *weighing) toggled(ctx context.Context, c *contender.Contender, s explain.Setting) (as *contender.Contender, to string, err error) {
	i := slices.IndexFunc(c.Toggles, func(t contender.Toggle) bool { return t.Setting == string(s) })
	is := *c
	switch {
	case i >= 0 && c.Toggles[i].Contender != "":
		as, err := w.other(ctx, c.Toggles[i].Contender)
		return as, c.Toggles[i].To, err
	case i >= 0:
		is.Spec, to = c.Toggled(&c.Toggles[i]), c.Toggles[i].To
	case s == explain.Hop && c.Front != "":
		spec := *c.Spec
		spec.Front = ""
		is.Spec = &spec
	case s == explain.Memory && slices.ContainsFunc(c.Versions, func(v string) bool { return strings.HasPrefix(v, "go1.") }):
		is.Spec = c.Toggled(&contender.Toggle{Env: []string{rarely}})
	default:
		return nil, "", nil
	}
	return &is, to, nil
}

// other returns a contender that takes part, or is brought now; nil if it cannot be had.
func (w *weighing) other(ctx context.Context, name string) (*contender.Contender, error) {
	if c := w.contenders[name]; c != nil {
		return c, nil
	}
	spec, err := w.spec(name)
	if err != nil {
		return nil, err
	}
	c, err := w.tools().Prepare(ctx, spec)
	if err != nil && ctx.Err() == nil {
		w.note("What %s would show is not known: %v.", spec.Title, err)
		return nil, nil
	}
	return c, err
}

// answer carries out one counter-experiment: blocks of the contender, of the contender with the
// setting changed and of the control.
func (w *weighing) answer(ctx context.Context, q *question) (report.CounterExperiment, error) {
	f := q.finding
	tested := report.CounterExperiment{
		Contender: q.row.Name, Condition: q.condition, Cause: f.Cause, Setting: f.Counter.Setting, To: q.to, Explains: f.Explains,
		ChangesControl: f.Counter.ChangesControl,
	}
	if tested.Failure = w.unlike(ctx, q); tested.Failure != "" || ctx.Err() != nil {
		return tested, ctx.Err()
	}
	const as, toggled, control = "as it is", "toggled", "control"
	sides := map[string]*contender.Contender{as: w.contenders[q.row.Name], toggled: q.toggled, control: w.contenders[w.experiment.Control]}
	values := make(map[int]map[string]float64)
	err := w.carryOut(ctx, &series{
		conditions: []trial.Condition{q.condition}, together: true, members: func(trial.Condition) []string { return []string{as, toggled, control} }, control: control,
		what: " while testing the explanations,", contenders: sides, blocks: whyBlocks, measure: w.bench.Measure,
		keep: func(rec trial.Record) {
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
			tested.Of, tested.Toggled, tested.Control = append(tested.Of, v[as]), append(tested.Toggled, v[toggled]), append(tested.Control, v[control])
		}
	}
	if len(tested.Of) > 0 {
		tested.Failure = ""
	}
	return tested, nil
}

// quantity is what of a trial a finding explains.
func quantity(r *trial.Record, q explain.Quantity) float64 {
	switch q {
	case explain.Rate:
		return r.Load.PerSecond()
	case explain.Latency:
		return r.Load.Latency.Mean().Seconds() * 1e6
	}
	return r.WeightUs()
}

// unlike says how the contender with the setting changed answers otherwise than it does as it is:
// fields and connections may differ, which may be the setting; what is answered may not.
func (w *weighing) unlike(ctx context.Context, q *question) string {
	answer, err := w.ask(ctx, q.row.Entrant, q.toggled)
	if err != nil {
		return err.Error()
	}
	for _, d := range equal.Compare(q.row.Response, answer) {
		if slices.Contains([]string{"status", "body", "body length"}, d.What) {
			return fmt.Sprintf("with %s it answers otherwise: %s", q.to, d)
		}
	}
	return ""
}
