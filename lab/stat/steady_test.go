package stat

import (
	"math"
	"math/rand/v2"
	"testing"
)

// series makes n values around levels that a function gives, with a spread of so much.
func series(random *rand.Rand, n int, spread float64, level func(i int) float64) []float64 {
	values := make([]float64, n)
	for i := range values {
		values[i] = level(i) * (1 + spread*random.NormFloat64())
	}
	return values
}

func TestSteady(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	step := func(at int, low float64) func(int) float64 {
		return func(i int) float64 {
			if i < at {
				return low
			}
			return 100
		}
	}
	for name, test := range map[string]struct {
		level  func(i int) float64
		lo, hi int // where it may be found to settle
		ok     bool
		least  float64 // share of the series of which that must hold
	}{
		"from the beginning": {func(int) float64 { return 100 }, 0, 0, true, 0.97},
		"after a slow start": {step(8, 60), 7, 9, true, 0.97},
		"after a ramp":       {func(i int) float64 { return min(100, 40+6*float64(i)) }, 7, 12, true, 0.95},
		"after a fast start": {step(10, 130), 9, 11, true, 0.97},
		"a change too small": {step(10, 99), 0, 12, true, 0.97},
		"never":              {func(i int) float64 { return 100 + 4*float64(i) }, 30, 60, false, 0.95},
	} {
		const runs = 400
		right := 0
		for range runs {
			from, ok := Steady(series(random, 60, 0.03, test.level))
			if from >= test.lo && from <= test.hi && ok == test.ok {
				right++
			}
		}
		if share := float64(right) / runs; share < test.least {
			t.Errorf("%s: right in %.3f of the series", name, share)
		}
	}
}

func TestSteadyOfLittle(t *testing.T) {
	if _, ok := Steady([]float64{1, 2, 3}); ok {
		t.Error("three values tell")
	}
	if from, ok := Steady([]float64{5, 5, 5, 5, 5, 5}); from != 0 || !ok {
		t.Errorf("equal values settle at %d, %t", from, ok)
	}
	if from, ok := Steady([]float64{0, 0, 0, 0, 0, 0}); from != 0 || !ok {
		t.Errorf("zeros settle at %d, %t", from, ok)
	}
	if math.IsNaN(noise([]float64{1, 1})) {
		t.Error("no noise is not a number")
	}
}
