package lab

import (
	"context"
	"fmt"
	"time"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/trial"
)

// series is a number of blocks under each of some conditions. A block starts all members once and
// loads them in turns.
type series struct {
	what       string // names the series when it is interrupted
	conditions []sample.Condition
	members    func(sample.Condition) []string // called before each block
	together   bool                            // if one member is measured alone, all are, and none is the control
	blocks     int                             // at most
	measure    time.Duration                   // the load of each member in a block
	keep       func(sample.Record)
	enough     func(blocks int, elapsed time.Duration) bool // called after each block; nil is never enough
}

// carryOut carries out a series. The error is ctx's or the bench's. Failures of contenders are in
// the records.
func (w *runner) carryOut(ctx context.Context, s *series) error {
	alone := make(loners)
	w.recorder.Save()
	loop := trial.Loop{
		Conditions: s.conditions, Blocks: s.blocks, Seed: w.Seed, Keep: s.keep, Enough: s.enough,
		Measure: func(ctx context.Context, turn trial.Turn) ([]sample.Record, error) {
			k := w.block(s, turn.Block, turn.Condition)
			k.Alone = make(map[string]string)
			for _, m := range k.Members {
				if k.Alone[m.Name] = alone.why(turn.Condition, m.Name); turn.Condition.Scenario.Fresh {
					k.Alone[m.Name] = "each trial begins with new processes"
				}
			}
			blocks := w.shown(s)
			each := w.bench.Warmup + k.Measure + overhead
			k.Turn = w.progress(turn, Progress{Block: k.Number, Blocks: blocks, Condition: k.Condition},
				each*time.Duration(len(k.Members)), blocks*len(s.conditions))
			records, err := w.bench.Block(ctx, k)
			for i := range records {
				alone.add(&records[i])
			}
			return records, err
		},
	}
	last, err := loop.Run(ctx)
	if ctx.Err() != nil {
		w.recorder.Warn("interrupted%s in block %d of %d", s.what, last, w.shown(s))
		return ctx.Err()
	}
	return err
}

// loners holds why and in how many consecutive blocks contenders were measured alone, by slots
// without a block.
type loners map[trial.Slot]struct {
	why    string
	blocks int
}

// staysAlone is the number of consecutive blocks alone after which a contender stays alone. One may
// be a hiccup of the machine.
const staysAlone = 2

func (l loners) add(r *sample.Record) {
	slot := trial.Slot{Condition: r.Condition, Contender: r.Contender}
	m := l[slot]
	if m.why = r.StaysAlone(); m.why != "" {
		m.blocks++
	} else if r.Alone == "" {
		m.blocks = 0
	}
	l[slot] = m
}

// why returns why a contender stays alone under a condition, or "".
func (l loners) why(c sample.Condition, name string) string {
	if m := l[trial.Slot{Condition: c, Contender: name}]; m.blocks >= staysAlone {
		return m.why
	}
	return ""
}

func (w *runner) block(s *series, number int, c sample.Condition) trial.Block {
	k := trial.Block{Number: number, Condition: c, Seed: w.Seed, Measure: s.measure, Together: s.together}
	for _, name := range s.members(c) {
		if w.contenders[name] == nil || w.hasFailed(c, name) {
			continue
		}
		k.Members = append(k.Members, trial.Member{Name: name, Contender: w.contenders[name]})
		if name == w.experiment.Control && !s.together {
			k.Control = name
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
	failures := make(map[string]int)
	err := w.carryOut(ctx, &series{
		conditions: w.run.Conditions, members: func(sample.Condition) []string { return w.present() },
		blocks: w.Until.Most(w.trials.Blocks), measure: time.Duration(w.trials.Measure),
		keep: func(rec sample.Record) {
			w.run.Blocks = max(w.run.Blocks, rec.Block)
			if w.keep(rec); rec.Failure == "" {
				return
			}
			if failures[rec.Contender]++; failures[rec.Contender] == FailuresToDrop {
				w.leaveOut(w.run.Entrant(rec.Contender),
					fmt.Sprintf("it failed %d times; the last failure: %s", FailuresToDrop, rec.Failure))
			}
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
