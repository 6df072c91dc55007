package lab

import (
	"context"
	"slices"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/sample"
)

// whyBlocks is the number of blocks of a counter-experiment. A cause that explains most of a
// difference changes it so much that this shows without an interval.
const whyBlocks = 3

// rareGC makes Go's garbage collector run a quarter as often as with the default, 100.
const rareGC = "GOGC=400"

// why carries out the counter-experiments and adds their results to the run.
func (w *runner) why(ctx context.Context) error {
	a := analyze.Analyze(w.run)
	for i := range a.Tables {
		t := &a.Tables[i]
		for j := range t.Why {
			c := w.contenders[t.Why[j].Name]
			if c == nil || c.RunBy() != "Go" {
				continue
			}
			tested, err := w.test(ctx, c, t.Condition)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if err != nil {
				return err
			}
			w.run.CounterExperiments = append(w.run.CounterExperiments, tested)
		}
	}
	return nil
}

// test carries out one counter-experiment: blocks of the contender, of the contender with memory
// that is collected less often, and of the control.
func (w *runner) test(ctx context.Context, c *contender.Contender, under sample.Condition) (
	sample.CounterExperiment, error) {
	tested := sample.CounterExperiment{Contender: c.Name, Condition: under}
	spec, changed := *c.Spec, *c
	spec.Env = slices.Concat(spec.Env, []string{rareGC})
	changed.Spec = &spec
	const as, toggled, control = "as it is", "toggled", "control"
	sides := map[string]*contender.Contender{as: c, toggled: &changed, control: w.contenders[w.experiment.Control]}
	values := make(map[int]map[string]float64)
	err := w.carryOut(ctx, &series{
		conditions: []sample.Condition{under}, together: true,
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
			values[rec.Block][rec.Contender] = sample.CPU.Of(&rec)
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
