package lab

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/trial"
)

// series is a number of blocks under each of some conditions. Each block has all conditions, in
// random order.
type series struct {
	what       string // names the series when it is interrupted
	conditions []sample.Condition
	blocks     int // at most
	// measure carries out one block under a condition and returns a record of each contender. A
	// failure of a contender is in its record.
	measure func(context.Context, turn) ([]sample.Record, error)
	keep    func(sample.Record)                          // receives each record
	enough  func(blocks int, elapsed time.Duration) bool // called after each block; nil is never enough
}

type turn struct {
	of        *series
	block     int // from 1
	condition sample.Condition
	done      int       // turns before this one
	began     time.Time // when the first turn began
}

// carryOut carries out a series. The error is ctx's, or that of measure.
func (w *runner) carryOut(ctx context.Context, s *series) error {
	w.recorder.Save()
	random := rand.New(rand.NewPCG(w.Seed, uint64(len(s.conditions))))
	t := turn{of: s, began: time.Now()}
	for t.block < s.blocks {
		t.block++
		for _, i := range random.Perm(len(s.conditions)) {
			t.condition = s.conditions[i]
			records, err := s.measure(ctx, t)
			if err = cmp.Or(ctx.Err(), err); err != nil {
				w.recorder.Warn("interrupted%s in block %d of %d", s.what, t.block, w.shown(s))
				return err
			}
			for _, r := range records {
				s.keep(r)
			}
			t.done++
		}
		if s.enough != nil && s.enough(t.block, time.Since(t.began)) {
			break
		}
	}
	return nil
}

// inTurns lets the blocks of a series start contenders once and load each for a time, in turns.
// names returns those of a condition and is called before each block. If together is set and one
// is measured alone, all are, and none is the control.
func (w *runner) inTurns(measure time.Duration, together bool,
	names func(sample.Condition) []string) func(context.Context, turn) ([]sample.Record, error) {
	return func(ctx context.Context, t turn) ([]sample.Record, error) {
		c := t.condition
		k := trial.Block{Number: t.block, Condition: c, Seed: w.Seed, Measure: measure, Together: together}
		for _, name := range names(c) {
			if w.contenders[name] == nil || w.hasFailed(c, name) {
				continue
			}
			k.Members = append(k.Members, trial.Member{Name: name, Contender: w.contenders[name]})
			if name == w.experiment.Control && !together {
				k.Control = name
			}
		}
		k.Turn = w.progress(t, t.block, (w.bench.Warmup+measure+overhead)*time.Duration(len(k.Members)))
		return w.bench.Block(ctx, k)
	}
}

type slot struct {
	sample.Condition
	contender string
}

// shown returns the number of blocks that progress shows. A series that ends by its function enough
// may have more.
func (w *runner) shown(s *series) int {
	if s.enough != nil {
		return w.run.Blocks
	}
	return s.blocks
}

// progress returns a function that reports progress in a block at each turn of a contender. estimate
// is the time of the first turn; later ones take the mean of those before.
func (w *runner) progress(t turn, block int, estimate time.Duration) func(name string, perSecond float64) {
	each, start := estimate, time.Now()
	if t.done > 0 {
		each = time.Since(t.began) / time.Duration(t.done)
	}
	p := Progress{Block: block, Blocks: w.shown(t.of), Condition: t.condition}
	p.Total = each * time.Duration(p.Blocks*len(t.of.conditions))
	return func(name string, perSecond float64) {
		if w.Progress != nil {
			p.Done = each*time.Duration(t.done) + min(time.Since(start), each)
			p.Contender, p.PerSecond = w.run.TitleOf(name), perSecond
			w.Progress(p)
		}
	}
}

func (w *runner) runTrials(ctx context.Context) error {
	if !w.comparable() {
		return errNoControl
	}
	failures := make(map[string]int)
	err := w.carryOut(ctx, &series{
		conditions: w.run.Conditions, blocks: w.Until.Most(w.trials.Blocks),
		measure: w.inTurns(time.Duration(w.trials.Measure), false,
			func(sample.Condition) []string { return w.present() }),
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

const firstEarly = 3 // block after which early results are shown

func (w *runner) early(blocks int) {
	if w.Early != nil && blocks >= firstEarly {
		until := *w.run
		until.Blocks = blocks
		w.Early(&until)
	}
}

// attribute counts system calls and traffic of every contender once under each condition. It runs
// after all timed trials, because counting costs time. Copies of the control are not counted.
func (w *runner) attribute(ctx context.Context) error {
	names := slices.DeleteFunc(w.present(), func(name string) bool { return name == twin })
	conditions := slices.DeleteFunc(slices.Clone(w.run.Conditions), func(c sample.Condition) bool {
		return !c.Saturated() // explanations concern saturation
	})
	return w.count(ctx, " while counting, after all timed trials,", names, conditions, 0)
}

// count counts system calls of contenders in each of some blocks. 0 is once, without a block.
func (w *runner) count(ctx context.Context, what string, names []string, conditions []sample.Condition,
	blocks int) error {
	return w.carryOut(ctx, &series{
		what: what, conditions: conditions, blocks: max(1, blocks), keep: w.keep,
		measure: func(ctx context.Context, t turn) (all []sample.Record, err error) {
			report := w.progress(t, 0, (w.bench.Warmup+w.bench.Measure+overhead)*time.Duration(len(names)))
			for _, name := range names {
				report(name, 0)
				m := trial.Member{Name: name, Contender: w.contenders[name]}
				rec, err := w.bench.Attribute(ctx, min(t.block, blocks), t.condition, m)
				if err != nil {
					return all, err
				}
				all = append(all, rec)
			}
			return all, nil
		},
	})
}

// Until determines how many blocks follow those of the experiment. The zero value adds none.
type Until struct {
	Width  float64       // target for half of an interval's width, as a share of its ratio
	Within time.Duration // time after which no block begins; 0 is DefaultWithin
}

const (
	// DefaultWithin limits the time of a run with Until.
	DefaultWithin = 30 * time.Minute
	// mostAdded limits all blocks, as a multiple of the experiment's. Intervals shrink with the
	// square root of the number of blocks, so that more blocks would hardly help.
	mostAdded = 20
	// narrowInARow is the number of consecutive blocks after which all intervals must be narrow.
	// The first narrow interval is often narrow by chance, and misplaced (a simulation in package
	// stat).
	narrowInARow = 3
)

// Most returns the highest number of blocks.
func (u Until) Most(blocks int) int {
	if u.Width == 0 {
		return blocks
	}
	return min(maxBlocks, mostAdded*blocks)
}

// enough reports whether the run ends after the given number of blocks. It considers only the width
// of intervals, never their position: a run that ends at a desired result finds false differences.
func (w *runner) enough(blocks int, elapsed time.Duration) bool {
	if blocks < w.trials.Blocks {
		return false
	}
	if w.Until.Width == 0 || elapsed >= cmp.Or(w.Until.Within, DefaultWithin) {
		return true
	}
	if w.narrow++; analyze.Analyze(w.run).WidestInterval() > w.Until.Width {
		w.narrow = 0
	}
	return w.narrow == narrowInARow
}
