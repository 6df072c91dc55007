package lab

import (
	"context"
	"time"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/trial"
)

// series is a number of blocks under each of some conditions. A block starts all members once and
// loads them in turns.
type series struct {
	what       string // names the series when it is interrupted
	conditions []sample.Condition
	members    func(sample.Condition) []string // called before each block
	together   bool                            // if one member is measured alone, all are
	apart      bool                            // no member is the control
	control    string                          // one of the members; "" is the experiment's control
	blocks     int                             // at most
	measure    time.Duration                   // the load of each member in a block
	keep       func(sample.Record)
	enough     func(blocks int, elapsed time.Duration) bool // called after each block; nil is never enough

	contenders map[string]*contender.Contender
}

// carryOut carries out a series. The error is ctx's or the bench's. Failures of contenders are in
// the records.
func (w *runner) carryOut(ctx context.Context, s *series) error {
	loop := trial.Loop{
		Conditions: s.conditions, Blocks: s.blocks, Seed: w.Seed, Keep: s.keep, Enough: s.enough,
	}
	last, err := loop.Run(ctx, &processes{runner: w, series: s})
	if ctx.Err() != nil {
		w.recorder.Warn("interrupted%s in block %d of %d", s.what, last, w.shown(s))
		return ctx.Err()
	}
	return err
}

// processes are the contenders of a series, as processes under load. They are a trial.Source.
type processes struct {
	runner *runner
	series *series
	alone  map[sample.Condition]loners
}

// loners holds, by name, why and in how many consecutive blocks members were measured alone.
type loners map[string]struct {
	why    string
	blocks int
}

// staysAlone is the number of consecutive blocks alone after which a member stays alone. One may be
// a hiccup of the machine.
const staysAlone = 2

// add counts a record.
func (l loners) add(r *sample.Record) {
	m := l[r.Contender]
	if m.why = r.StaysAlone(); m.why != "" {
		m.blocks++
	} else if r.Alone == "" {
		m.blocks = 0
	}
	l[r.Contender] = m
}

// alone returns why members stay alone.
func (l loners) alone() map[string]string {
	all := make(map[string]string)
	for name, m := range l {
		if m.blocks >= staysAlone {
			all[name] = m.why
		}
	}
	return all
}

// Prepare implements trial.Source. The contenders were built and compared before.
func (p *processes) Prepare(context.Context) error {
	p.alone = make(map[sample.Condition]loners)
	for _, c := range p.series.conditions {
		p.alone[c] = make(loners)
	}
	p.runner.recorder.Save()
	return nil
}

// Measure implements trial.Source.
func (p *processes) Measure(ctx context.Context, turn trial.Turn) ([]sample.Record, error) {
	w := p.runner
	k := w.block(p.series, turn.Block, turn.Condition)
	k.Alone = p.alone[turn.Condition].alone()
	if turn.Condition.Scenario.Fresh {
		for _, m := range k.Members {
			k.Alone[m.Name] = "each trial begins with new processes"
		}
	}
	blocks := w.shown(p.series)
	each := w.bench.Warmup + k.Measure + overhead
	k.Turn = w.progress(turn, Progress{Block: k.Number, Blocks: blocks, Condition: k.Condition},
		each*time.Duration(len(k.Members)), blocks*len(p.series.conditions))
	records, err := w.bench.Block(ctx, k)
	for i := range records {
		p.alone[turn.Condition].add(&records[i])
	}
	return records, err
}

// block returns one block of a series under a condition.
func (w *runner) block(s *series, number int, c sample.Condition) trial.Block {
	k := trial.Block{Number: number, Condition: c, Seed: w.Seed, Measure: s.measure, Together: s.together}
	control := s.control
	if control == "" {
		control = w.experiment.Control
	}
	for _, name := range s.members(c) {
		k.Members = append(k.Members, trial.Member{Name: name, Contender: s.contenders[name]})
		if name == control && !s.apart {
			k.Control = control
		}
	}
	return k
}

// shown returns the number of blocks that progress shows. A series that ends by its function enough
// may have more.
func (w *runner) shown(s *series) int {
	if s.enough != nil {
		return w.run.Blocks
	}
	return s.blocks
}

// progress returns a function that reports progress at each turn of a contender. estimate is the
// time of the loop's first turn.
func (w *runner) progress(turn trial.Turn, p Progress, estimate time.Duration,
	turns int) func(name string, perSecond float64) {
	each, start := turn.Each(estimate), time.Now()
	p.Total = each * time.Duration(turns)
	return func(name string, perSecond float64) {
		if w.Progress == nil {
			return
		}
		now := p
		now.Done = each*time.Duration(turn.Done) + min(time.Since(start), each)
		now.Contender, now.PerSecond = w.run.TitleOf(name), perSecond
		w.Progress(now)
	}
}

// runTrials carries out the trials at saturation.
func (w *runner) runTrials(ctx context.Context) error {
	if !w.comparable() {
		return errNoControl
	}
	err := w.carryOut(ctx, &series{
		conditions: w.run.Conditions, members: func(sample.Condition) []string { return w.present() },
		contenders: w.contenders, blocks: w.Until.Most(w.trials.Blocks), measure: time.Duration(w.trials.Measure),
		keep: func(rec sample.Record) {
			w.run.Blocks = max(w.run.Blocks, rec.Block)
			w.keep(rec)
		},
		enough: func(blocks int, elapsed time.Duration) bool {
			w.early(blocks)
			return !w.comparable() || w.enough(blocks, elapsed)
		},
	})
	if err == nil && !w.comparable() {
		return errNoControl
	}
	return err
}

// firstEarly is the block after which early results are shown.
const firstEarly = 3

// early passes on what was measured in some blocks.
func (w *runner) early(blocks int) {
	if w.Early != nil && blocks >= firstEarly {
		until := *w.run
		until.Blocks = blocks
		w.Early(&until)
	}
}

// carryDropping carries out a series. A contender that fails in it stays in the run. After
// FailuresToDrop failures it is left out of that condition.
func (w *runner) carryDropping(ctx context.Context, s *series) error {
	failed := make(map[trial.Slot]int) // without block
	members, keep := s.members, s.keep
	s.members = func(c sample.Condition) (names []string) {
		for _, name := range members(c) {
			if w.contenders[name] != nil && failed[trial.Slot{Condition: c, Contender: name}] < FailuresToDrop {
				names = append(names, name)
			}
		}
		return names
	}
	s.keep = func(rec sample.Record) {
		keep(rec)
		if rec.Failure != "" {
			failed[trial.Slot{Condition: rec.Condition, Contender: rec.Contender}]++
			w.recorder.Log("failed: %s, %s, block %d: %s", w.run.TitleOf(rec.Contender), rec.Condition.Text(),
				rec.Block, rec.Failure)
		}
	}
	return w.carryOut(ctx, s)
}
