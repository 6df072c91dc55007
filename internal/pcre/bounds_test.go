package pcre

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// A match by package regexp is interrupted when the budget is used up, for bytes and for runes.
// Without interruption these matches need more than a minute.
func TestLongLinearMatchIsInterrupted(t *testing.T) {
	t.Parallel()
	var alternatives []string
	for i := range 300 {
		c := 'b' + i%20
		alternatives = append(alternatives, fmt.Sprintf("([a%c]).{%d}%c", c, 900-i, c))
	}
	source := strings.Join(alternatives, "|")
	for _, test := range []struct{ source, subject string }{
		{source, strings.Repeat("a", 30000)}, {source, strings.Repeat("a", 30000) + "\xff"},
		{"(*UTF8)" + source, strings.Repeat("aä", 10000)},
	} {
		re, err := Compile(test.source, false)
		if err != nil {
			t.Fatal(err)
		}
		budget := 1 << 20
		if bounds, err := re.Find(test.subject, &budget); !errors.Is(err, ErrBudget) || bounds != nil || budget > 0 {
			t.Errorf("%v, %v, %d steps left", bounds, err, budget)
		}
		budget = 1 << 20
		if ok, err := re.Match(test.subject, &budget); !errors.Is(err, ErrBudget) || ok || budget > 0 {
			t.Errorf("%v, %v, %d steps left", ok, err, budget)
		}
	}
}

// Offsets in long subjects are in bytes.
func TestOffsetsInLongSubjectsAreBytes(t *testing.T) {
	t.Parallel()
	const n = 400000
	for _, test := range []struct {
		source, subject string
		want            []int
	}{
		{"(b+)(x)?$", strings.Repeat("\xc3", n) + "bb", []int{n, n + 2, n, n + 2, -1, -1}},
		{"(*UTF8)(ü)\\b", strings.Repeat("ä", n) + "ü" + "a", []int{2 * n, 2*n + 2, 2 * n, 2*n + 2}},
		{"[^\xc3]", strings.Repeat("\xc3", n), nil},
	} {
		re, err := Compile(test.source, false)
		if err != nil {
			t.Fatal(err)
		}
		if !re.linear.isLong(test.subject) {
			t.Errorf("%s: not long enough", test.source)
		}
		budget := 1 << 40
		bounds, err := re.Find(test.subject, &budget)
		if err != nil || fmt.Sprint(bounds) != fmt.Sprint(test.want) {
			t.Errorf("%s: %v, %v, want %v", test.source, bounds, err, test.want)
		}
		if ok, err := re.Match(test.subject, &budget); err != nil || ok != (test.want != nil) {
			t.Errorf("%s: %v, %v", test.source, ok, err)
		}
	}
}

// Repetitions of empty programs cost nothing to compile.
func TestRepetitionOfEmptyProgramIsCheap(t *testing.T) {
	t.Parallel()
	for _, source := range []string{"(?:)", "(?:ab){0}", "(?:(?:))", "(?:ab){0}(?:cd){0}"} {
		for range 20 {
			source = "(?:" + source + "){65535}"
		}
		re, err := Compile(source+"x", false)
		if err != nil {
			t.Error(err)
			continue
		}
		budget := 1000
		if ok, err := re.Match("x", &budget); !ok || err != nil {
			t.Errorf("%v, %v", ok, err)
		}
	}
}
