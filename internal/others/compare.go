package main

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// result is what the runs of a project in all modes have shown.
type result struct {
	Name, Version, Go string
	Tare              string // the commit
	Tests             int    // that pass with net/http
	Failed            int    // that fail with net/http, too
	Undocumented      int    // differences
	Seconds           int
	Differences       []difference
	Unsteady          []difference // but not when they ran again
	Problem           string       // why a part of the tests shows nothing
}

// difference is a test that passes with net/http and not with tare.
type difference struct {
	Mode, Package, Test string
	Reason              string // "" if no document has it
}

func (b *builder) compare(ctx context.Context, p program) {
	want, isServed := b.runAll(ctx, p, reference), false
	for _, mode := range b.Modes {
		got := b.runAll(ctx, p, mode)
		if isServed = isServed || got.isServed; !isServed && mode == "both" {
			break // nor is it in the other modes
		}
		for _, test := range differing(want, got) {
			b.confirm(ctx, p, mode, test)
		}
	}
	for _, outcome := range want.outcomes {
		switch {
		case !isServed: // such a program shows nothing
		case strings.HasPrefix(outcome, pass):
			b.out.Tests++
		case outcome != "SKIP":
			b.out.Failed++
		}
	}
}

// runAll runs all tests in a mode. If a test hangs or ends the program, the others run again
// without it.
func (b *builder) runAll(ctx context.Context, p program, mode string) *trial {
	const mostRuns = 6
	t := b.run(ctx, p, mode, b.Run, b.Skip)
	for skip, n := b.Skip, 1; n < mostRuns && len(t.unfinished) > 0; n++ {
		skip = strings.TrimPrefix(skip+"|^("+strings.Join(t.unfinished, "|")+")$", "|")
		t = b.run(ctx, p, mode, b.Run, skip)
	}
	return t
}

// differing returns the tests, or their subtests of the first level, that pass in a trial and
// not, or not with the same output, in another.
func differing(want, got *trial) []string {
	found := make(map[string]bool)
	for test, outcome := range want.outcomes {
		if strings.HasPrefix(outcome, pass) && got.outcomes[test] != outcome && got.outcomes[levels(test, 1)] != pass {
			found[levels(test, 2)] = true
		}
	}
	for test := range found {
		if top := levels(test, 1); top != test {
			delete(found, top)
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// levels returns the first names of a subtest: the test, and subtests that contain it.
func levels(test string, n int) string {
	names := strings.Split(test, "/")
	return strings.Join(names[:min(n, len(names))], "/")
}

// confirm runs a test or subtest alone, with tare and with net/http, or all tests if it needs the
// others, and reports it if it still differs.
func (b *builder) confirm(ctx context.Context, p program, mode, test string) {
	only := "^" + strings.ReplaceAll(regexp.QuoteMeta(test), "/", "$/^") + "$"
	got, want := b.run(ctx, p, mode, only, ""), b.run(ctx, p, reference, only, "")
	if !strings.HasPrefix(want.outcomes[test], pass) {
		got, want = b.runAll(ctx, p, mode), b.runAll(ctx, p, reference)
	}
	isSame := func(s string) bool { return levels(s, 1) == levels(test, 1) }
	d := difference{mode, p.ImportPath, test, b.reason(mode, test)}
	if !slices.ContainsFunc(differing(want, got), isSame) {
		b.out.Unsteady = append(b.out.Unsteady, d)
		return
	}
	if b.out.Differences = append(b.out.Differences, d); d.Reason == "" {
		b.out.Undocumented++
		fmt.Printf("%s: %s %s\nwith net/http:\n%s\nwith tare:\n%s\n", mode, d.Package, test,
			linesWithout(want.text, got.text), linesWithout(got.text, want.text))
	}
}

// linesWithout returns the lines of a text that another text does not have, or some of them.
func linesWithout(text, other string) string {
	const most = 50
	lines := slices.DeleteFunc(strings.Split(text, "\n"), func(s string) bool { return strings.Contains(other, s) })
	return strings.Join(lines[:min(most, len(lines))], "\n")
}
