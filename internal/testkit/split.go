package testkit

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

const (
	singleCuts = 512 // most offsets at which EverySplit cuts an input in two
	randomCuts = 24  // number of random sets of cuts that EverySplit tries
)

// EverySplit calls run with the input whole, byte by byte, in two pieces for each place to cut it,
// and in random pieces. run returns everything observable about the input, such as values, counts
// and errors. A split whose result differs from that of the whole input fails the test. EverySplit
// returns the result of the whole input.
func EverySplit(t testing.TB, input []byte, run func(pieces [][]byte) string) string {
	t.Helper()
	want := run([][]byte{input})
	check := func(how string, cuts ...int) {
		t.Helper()
		if got := run(cut(input, cuts)); got != want {
			t.Fatalf("%s differs from whole\ninput: %q\nwhole: %s\nsplit: %s", how, input, want, got)
		}
	}
	bytewise := make([]int, 0, len(input))
	for i := 1; i < len(input); i++ {
		bytewise = append(bytewise, i)
	}
	check("byte by byte", bytewise...)
	step := max(1, len(input)/singleCuts)
	for i := 1; i < len(input); i += step {
		check(fmt.Sprintf("cut at %d", i), i)
	}
	if len(input) < 3 {
		return want
	}
	rnd := rand.New(rand.NewPCG(1, uint64(len(input))))
	for range randomCuts {
		cuts := make([]int, 1+rnd.IntN(6))
		for i := range cuts {
			cuts[i] = 1 + rnd.IntN(len(input)-1)
		}
		slices.Sort(cuts)
		check(fmt.Sprintf("cut at %v", cuts), cuts...)
	}
	return want
}

// cut splits input at ascending offsets. The pieces have no spare capacity, so reading past the end
// of one panics.
func cut(input []byte, cuts []int) (pieces [][]byte) {
	start := 0
	for _, c := range append(slices.Clone(cuts), len(input)) {
		if c > start || len(input) == 0 {
			pieces = append(pieces, input[start:c:c])
		}
		start = c
	}
	return pieces
}
