package lab

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
	"github.com/tarehq/tare/internal/testkit"
)

// carriedOut carries out a series whose turns have two records. It returns the turns, the number of
// records that were kept, and the warnings.
func carriedOut(ctx context.Context, seed uint64, s series, fail func(turn) error) (turns []turn, kept int,
	warnings []string, err error) {
	w := &runner{Options: Options{Seed: seed}, run: &sample.Run{Blocks: s.blocks}}
	w.recorder = &Recorder{Run: w.run}
	s.keep = func(sample.Record) { kept++ }
	s.measure = func(_ context.Context, t turn) ([]sample.Record, error) {
		turns = append(turns, t)
		return make([]sample.Record, 2), fail(t)
	}
	err = w.carryOut(ctx, &s)
	return turns, kept, w.run.Warnings, err
}

// named returns a condition for each name.
func named(names ...string) (all []sample.Condition) {
	for _, name := range names {
		all = append(all, sample.Condition{Scenario: sample.Scenario{Name: name}})
	}
	return all
}

// Every block has every condition once, in an order that only the seed determines.
func TestSeriesHasEveryConditionInEveryBlock(t *testing.T) {
	conditions := []string{"a", "b", "c", "d", "e"}
	orders := make(map[string]bool)
	for seed := range uint64(20) {
		var first []string
		for range 2 {
			turns, kept, _, err := carriedOut(t.Context(), seed, series{conditions: named(conditions...), blocks: 3},
				func(turn) error { return nil })
			if err != nil || kept != 2*3*len(conditions) {
				t.Fatal(kept, err)
			}
			var order []string
			for i, turn := range turns {
				if turn.block != 1+i/len(conditions) || turn.done != i {
					t.Errorf("turn %d is %+v", i, turn)
				}
				order = append(order, turn.condition.Scenario.Name)
			}
			for block := range slices.Chunk(order, len(conditions)) {
				testkit.Equal(t, slices.Sorted(slices.Values(block)), conditions, "a block")
				orders[block[0]] = true
			}
			if first == nil {
				first = order
			} else if !slices.Equal(first, order) {
				t.Errorf("seed %d: %v, then %v", seed, first, order)
			}
		}
	}
	testkit.Equal(t, len(orders), len(conditions), "first conditions of blocks:", orders)
}

// A series ends when there are enough blocks, when it is interrupted, and after an error. Results of
// a turn that failed are not kept.
func TestSeriesEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	broken := errors.New("broken")
	for name, test := range map[string]struct {
		fail func(turn) error
		want error
		warn string
		kept int
	}{
		"enough": {func(turn) error { return nil }, nil, "[]", 4 * 2},
		"broken": {func(t turn) error {
			if t.block == 3 {
				return broken
			}
			return nil
		}, broken, "[interrupted here in block 3 of 9]", 2 * 2},
		"interrupted": {func(t turn) error {
			if t.block == 2 {
				cancel()
			}
			return nil
		}, context.Canceled, "[interrupted here in block 2 of 9]", 2},
	} {
		ctx := ctx
		if name != "interrupted" {
			ctx = context.Background()
		}
		_, kept, warnings, err := carriedOut(ctx, 1, series{what: " here", conditions: named("a"), blocks: 9,
			enough: func(blocks int, elapsed time.Duration) bool { return blocks == 4 && elapsed >= 0 }}, test.fail)
		if !errors.Is(err, test.want) || fmt.Sprint(warnings) != test.warn || kept != test.kept {
			t.Errorf("%s: %v, %q after %d results", name, err, warnings, kept)
		}
	}
}

// The fixed rate is a share of the slowest contender's rate. Contenders that are far slower than
// the control do not count.
func TestFixedRateIsShareOfSlowestContender(t *testing.T) {
	of := func(rates map[string]float64) (all []*analyze.Row) {
		for _, name := range []string{"control", "a", "b"} {
			if v, ok := rates[name]; ok { // of the kinds only that of the control matters
				e := sample.Entrant{Name: name, Kind: sample.Kind(name)}
				all = append(all, &analyze.Row{Entrant: &e, PerSecond: stat.Interval{Mid: v}})
			}
		}
		return all
	}
	for _, test := range []struct {
		rates   map[string]float64
		share   float64
		want    float64
		slowest string
		left    string
	}{
		{map[string]float64{"control": 50_000, "a": 24_710}, 0.5, 12_000, "a", ""},
		{map[string]float64{"control": 50_000, "a": 90_000}, 0.5, 25_000, "control", ""},
		{map[string]float64{"control": 50_000, "a": 5_000, "b": 4_999}, 0.5, 2_500, "a", "b"},
		{map[string]float64{"control": 50_000, "a": 300, "b": 20}, 0.9, 45_000, "control", "a b"},
		{map[string]float64{"control": 7}, 0.5, 3.5, "control", ""},
		{map[string]float64{}, 0.5, 0, "", ""},
	} {
		rate, slowest, left := fixedRate(of(test.rates), test.share)
		var names []string
		for _, row := range left {
			names = append(names, row.Name)
		}
		if math.Abs(rate-test.want) > 1e-9*test.want || (slowest == nil) != (test.slowest == "") ||
			slowest != nil && slowest.Name != test.slowest || strings.Join(names, " ") != test.left {
			t.Errorf("%v: %v, the slowest is %+v, left are %v; want %+v", test.rates, rate, slowest, names, test)
		}
	}
}

func TestParseRateParsesSharesAndRates(t *testing.T) {
	for text, want := range map[string]Rate{
		"off": {}, "50%": {Share: 0.5}, "2.5%": {Share: 0.025}, "2000": {PerSecond: 2000},
	} {
		testkit.Equal(t, testkit.Value(ParseRate(text))(t), want, text)
	}
	for _, text := range []string{"", "fast", "0", "-5", "100%", "0%", "%", "NaN", "Inf", "1e9"} {
		testkit.Fails(ParseRate(text))(t, "want a share such as 50%", text)
	}
}
