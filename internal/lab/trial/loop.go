package trial

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/tarehq/tare/internal/lab/sample"
)

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

	// Measure carries out one block under a condition and returns a record of each contender. A
	// failure of a contender is in its record.
	Measure func(context.Context, Turn) ([]sample.Record, error)

	Keep   func(sample.Record)                          // receives each record
	Enough func(blocks int, elapsed time.Duration) bool // is called after each block; nil is never enough
}

// Run carries out the loop. last is the block in which it ended. The error is ctx's or Measure's.
func (l *Loop) Run(ctx context.Context) (last int, err error) {
	random := rand.New(rand.NewPCG(l.Seed, uint64(len(l.Conditions))))
	turn := Turn{Began: time.Now()}
	for turn.Block < l.Blocks {
		turn.Block++
		for _, i := range random.Perm(len(l.Conditions)) {
			turn.Condition = l.Conditions[i]
			records, err := l.Measure(ctx, turn)
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
