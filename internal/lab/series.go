package lab

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/report"
	"github.com/tarehq/tare/internal/lab/trial"
)

// series is a number of blocks under each of some conditions. A block starts all members once and
// loads them in turns.
type series struct {
	what       string // names the series when it is interrupted
	conditions []trial.Condition
	members    func(trial.Condition) []string // called before each block
	together   bool                           // if one member is measured alone, all are
	control    string                         // one of the members; "" is the experiment's control
	blocks     int                            // at most
	measure    time.Duration                  // the load of each member in a block
	keep       func(trial.Record)
	enough     func(blocks int, elapsed time.Duration) bool // called after each block; nil is never enough

	contenders map[string]*contender.Contender
}

// carryOut carries out a series. The error is ctx's or the bench's. Failures of contenders are in
// the records.
func (w *runner) carryOut(ctx context.Context, s *series) error {
	was := w.bench.Measure
	defer func() { w.bench.Measure = was }()
	w.bench.Measure = s.measure
	alone := make(map[trial.Condition]map[string]string)
	for _, c := range s.conditions {
		alone[c] = make(map[string]string)
	}
	random := rand.New(rand.NewPCG(w.Seed, uint64(len(s.conditions))))
	began, done := time.Now(), 0
	for block := 1; block <= s.blocks; block++ {
		for _, i := range random.Perm(len(s.conditions)) {
			k := w.block(s, block, s.conditions[i])
			k.Alone = alone[k.Condition]
			k.Turn = w.turns(s, &k, done, began)
			records, err := w.bench.Block(ctx, k)
			if ctx.Err() != nil {
				w.warn("interrupted%s in block %d of %d", s.what, block, w.shown(s))
				return ctx.Err()
			}
			if err != nil {
				return err
			}
			for _, rec := range records {
				if why := rec.StaysAlone(); why != "" {
					k.Alone[rec.Contender] = why
				}
				s.keep(rec)
			}
			done++
		}
		if s.enough != nil && s.enough(block, time.Since(began)) {
			return nil
		}
	}
	return nil
}

// block returns one block of a series under a condition.
func (w *runner) block(s *series, number int, c trial.Condition) trial.Block {
	k := trial.Block{Number: number, Condition: c, Seed: w.Seed, Together: s.together}
	control := s.control
	if control == "" {
		control = w.experiment.Control
	}
	for _, name := range s.members(c) {
		k.Members = append(k.Members, trial.Member{Name: name, Contender: s.contenders[name]})
		if name == control {
			k.Control = control
		}
	}
	return k
}

// shown returns the number of blocks that progress shows. A series with enough may have more.
func (w *runner) shown(s *series) int {
	if s.enough != nil {
		return w.run.Blocks
	}
	return s.blocks
}

// turns returns a function that reports progress at each turn of a contender; nil without
// a watcher.
func (w *runner) turns(s *series, k *trial.Block, done int, began time.Time) func(string, float64) {
	if w.Watcher.Progress == nil {
		return nil
	}
	each := time.Duration(len(k.Members)) * (w.bench.Warmup + w.bench.Measure + overhead)
	if done > 0 {
		each = time.Since(began) / time.Duration(done)
	}
	p := Progress{Block: k.Number, Blocks: w.shown(s), Condition: k.Condition}
	start := time.Now()
	return func(name string, perSecond float64) {
		now := p
		now.Done = each*time.Duration(done) + min(time.Since(start), each)
		now.Total = each * time.Duration(w.shown(s)*len(s.conditions))
		now.Contender, now.PerSecond = w.titleOf(name), perSecond
		w.Watcher.Progress(now)
	}
}

// titleOf returns the title of a member of a block.
func (w *runner) titleOf(name string) string {
	for i := range w.run.Entrants {
		if w.run.Entrants[i].Name == name {
			return w.run.Entrants[i].Title
		}
	}
	return name
}

// runTrials carries out the trials at saturation.
func (w *runner) runTrials(ctx context.Context) error {
	if !w.comparable() {
		return errNoControl
	}
	err := w.carryOut(ctx, &series{
		conditions: w.run.Conditions, members: func(trial.Condition) []string { return w.present() },
		contenders: w.contenders, blocks: w.Until.most(w.trials.Blocks), measure: time.Duration(w.trials.Measure),
		keep: func(rec trial.Record) {
			w.run.Blocks = max(w.run.Blocks, rec.Block)
			w.keep(rec)
		},
		enough: func(blocks int, elapsed time.Duration) bool { return !w.comparable() || w.enough(blocks, elapsed) },
	})
	if err == nil && !w.comparable() {
		return errNoControl
	}
	return err
}

// aside carries out trials in addition to those at saturation. A contender that fails in them stays
// in the run. After failuresToDrop failures it is left out of that condition.
func (w *runner) aside(ctx context.Context, what string, conditions []trial.Condition,
	members func(trial.Condition) []string, blocks int, measure time.Duration) error {
	type key struct {
		trial.Condition
		contender string
	}
	failed := make(map[key]int)
	return w.carryOut(ctx, &series{
		what: " " + what + ", after the trials at saturation,", conditions: conditions, contenders: w.contenders,
		blocks: blocks, measure: measure,
		members: func(c trial.Condition) (names []string) {
			for _, name := range members(c) {
				if w.contenders[name] != nil && failed[key{c, name}] < failuresToDrop {
					names = append(names, name)
				}
			}
			return names
		},
		keep: func(rec trial.Record) {
			w.record(rec)
			if rec.Failure != "" {
				failed[key{rec.Condition, rec.Contender}]++
				w.logf("failed: %s, %s, block %d: %s", w.titleOf(rec.Contender), report.ConditionText(rec.Condition),
					rec.Block, rec.Failure)
			}
		},
	})
}
