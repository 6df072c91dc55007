package trial

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/tarehq/tare/internal/lab/sample"
)

// Source measures contenders: processes under load, Go benchmarks, or load generators.
type Source interface {
	// Prepare builds or finds what Measure needs. It is called once, before Measure. The error is
	// ctx's or the source's own; a contender that cannot be prepared is left out.
	Prepare(ctx context.Context) error

	// Measure carries out one block under a condition and returns a record of each contender. A
	// failure of a contender is in its record. The error is ctx's or the source's own.
	Measure(ctx context.Context, turn Turn) ([]sample.Record, error)
}

// Turn is one block under one condition.
type Turn struct {
	Block     int // from 1
	Condition sample.Condition
	Done      int       // turns before this one
	Began     time.Time // when the first turn began
}

// Each returns the time of a turn: the mean of those before, or the estimate in the first one.
func (t *Turn) Each(estimate time.Duration) time.Duration {
	if t.Done == 0 {
		return estimate
	}
	return time.Since(t.Began) / time.Duration(t.Done)
}

// Loop measures all conditions in each of a number of blocks, in random order.
type Loop struct {
	Conditions []sample.Condition
	Blocks     int    // at most
	Seed       uint64 // of the order

	Keep   func(sample.Record)                          // receives each record
	Enough func(blocks int, elapsed time.Duration) bool // is called after each block; nil is never enough
}

// Run prepares the source and carries out the loop. last is the block in which it ended; 0 if the
// source could not be prepared.
func (l *Loop) Run(ctx context.Context, source Source) (last int, err error) {
	if err := source.Prepare(ctx); err != nil {
		return 0, err
	}
	random := rand.New(rand.NewPCG(l.Seed, uint64(len(l.Conditions))))
	turn := Turn{Began: time.Now()}
	for turn.Block < l.Blocks {
		turn.Block++
		for _, i := range random.Perm(len(l.Conditions)) {
			turn.Condition = l.Conditions[i]
			records, err := source.Measure(ctx, turn)
			if ctx.Err() != nil {
				return turn.Block, ctx.Err()
			}
			if err != nil {
				return turn.Block, err
			}
			for _, r := range records {
				l.Keep(r)
			}
			turn.Done++
		}
		if l.Enough != nil && l.Enough(turn.Block, time.Since(turn.Began)) {
			break
		}
	}
	return turn.Block, nil
}
