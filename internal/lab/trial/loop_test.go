package trial_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/trial"
)

// recorder measures nothing and remembers the turns.
type recorder struct {
	turns []trial.Turn
	fail  func(turn trial.Turn) error // may be nil
}

func (r *recorder) measure(_ context.Context, turn trial.Turn) ([]sample.Record, error) {
	r.turns = append(r.turns, turn)
	if r.fail != nil {
		if err := r.fail(turn); err != nil {
			return []sample.Record{{Contender: "lost"}}, err
		}
	}
	return []sample.Record{{Contender: "one"}, {Contender: "two"}}, nil
}

// named returns a condition for each name.
func named(names ...string) (all []sample.Condition) {
	for _, name := range names {
		all = append(all, sample.Condition{Scenario: sample.Scenario{Name: name}})
	}
	return all
}

// Every block has every condition once, in an order that only the seed determines.
func TestLoopMeasuresEveryConditionInEveryBlock(t *testing.T) {
	conditions := []string{"a", "b", "c", "d", "e"}
	orders := make(map[string]bool)
	for seed := range uint64(20) {
		var first []string
		for range 2 {
			source, kept := new(recorder), 0
			l := trial.Loop{Conditions: named(conditions...), Blocks: 3, Seed: seed, Measure: source.measure}
			l.Keep = func(sample.Record) { kept++ }
			if _, err := l.Run(context.Background()); err != nil || kept != 2*3*len(conditions) {
				t.Fatal(kept, err)
			}
			var order []string
			for i, turn := range source.turns {
				if turn.Block != 1+i/len(conditions) || turn.Done != i {
					t.Errorf("turn %d is %+v", i, turn)
				}
				order = append(order, turn.Condition.Scenario.Name)
			}
			for block := range slices.Chunk(order, len(conditions)) {
				if got := slices.Sorted(slices.Values(block)); !slices.Equal(got, conditions) {
					t.Errorf("a block has %v", got)
				}
				orders[block[0]] = true
			}
			if first == nil {
				first = order
			} else if !slices.Equal(first, order) {
				t.Errorf("seed %d: %v, then %v", seed, first, order)
			}
		}
	}
	if len(orders) != len(conditions) {
		t.Errorf("blocks begin with %v only", orders)
	}
}

// The loop ends when there are enough blocks, when it is interrupted, and after an error. Results
// of a turn that failed are not kept.
func TestLoopEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		fail func(trial.Turn) error
		want error
		last int
		kept int
	}{
		"enough": {nil, nil, 4, 4 * 2},
		"broken": {func(turn trial.Turn) error {
			if turn.Block == 3 {
				return broken
			}
			return nil
		}, broken, 3, 2 * 2},
		"interrupted": {func(turn trial.Turn) error {
			if turn.Block == 2 {
				cancel()
			}
			return nil
		}, context.Canceled, 2, 2},
	} {
		ctx := ctx
		if name != "interrupted" {
			ctx = context.Background()
		}
		kept := 0
		l := trial.Loop{Conditions: named("a"), Blocks: 9, Keep: func(sample.Record) { kept++ },
			Measure: (&recorder{fail: test.fail}).measure,
			Enough:  func(blocks int, elapsed time.Duration) bool { return blocks == 4 && elapsed >= 0 }}
		last, err := l.Run(ctx)
		if !errors.Is(err, test.want) || last != test.last || kept != test.kept {
			t.Errorf("%s: %v in block %d after %d results", name, err, last, kept)
		}
	}
}
