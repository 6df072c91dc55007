package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// result is what the runs of a project in all modes have shown.
type result struct {
	Name, Version, Go string
	Tests             int // that pass with net/http
	Failed            int // that fail with net/http, too
	Unsteady          int // that differed, but not when they ran again alone
	Seconds           int
	Differences       []difference
	Problems          []string // why a part of the tests shows nothing
}

// difference is a test that passes with net/http and not with tare.
type difference struct {
	Mode, Package, Test string
	Reason              string // "" if no document has it
}

// comparison compares the runs of a program.
type comparison struct {
	*builder
	program program
	out     *result
	log     io.Writer
}

// compareAll runs all programs of a project in all modes.
func (b *builder) compareAll(ctx context.Context, modes []string, log io.Writer) (*result, error) {
	began := time.Now()
	out := &result{Name: b.name(), Version: b.Version}
	programs, err := b.programs(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range programs {
		if err := b.build(ctx, p); err != nil {
			out.Problems = append(out.Problems, err.Error())
			continue
		}
		c := comparison{b, p, out, log}
		if err := c.compare(ctx, modes); err != nil {
			return nil, fmt.Errorf("%s: %w", p.ImportPath, err)
		}
		if err := os.Remove(p.file); err != nil {
			return nil, err
		}
	}
	out.Seconds = int(time.Since(began).Seconds())
	return out, ctx.Err()
}

func (c *comparison) compare(ctx context.Context, modes []string) error {
	skip := strings.Join(slices.Sorted(maps.Keys(c.Skip)), "|")
	want, err := c.run(ctx, c.program, reference, "", skip)
	if err != nil {
		return err
	}
	isServed := false
	for _, mode := range modes {
		got, err := c.runAll(ctx, mode, skip)
		if err != nil {
			return err
		}
		isServed = isServed || got.isServed
		differing := make(map[string]bool) // by top-level test
		for test, o := range want.outcomes {
			if o == passed && got.outcomes[test] != passed && got.outcomes[top(test)] != passed ||
				c.Script != "" && got.output[test] != want.output[test] {
				differing[top(test)] = true
			}
		}
		for _, test := range slices.Sorted(maps.Keys(differing)) {
			if err := c.confirm(ctx, mode, test); err != nil {
				return err
			}
		}
	}
	if isServed { // other programs show nothing
		for _, o := range want.outcomes {
			switch o {
			case passed:
				c.out.Tests++
			case failed:
				c.out.Failed++
			}
		}
	}
	return ctx.Err()
}

// runAll runs all tests in a mode. If a test hangs or ends the program, the others run again without
// it.
func (c *comparison) runAll(ctx context.Context, mode, skip string) (t *trial, err error) {
	const mostRuns = 6
	for range mostRuns {
		if t, err = c.run(ctx, c.program, mode, "", skip); err != nil || len(t.unfinished) == 0 {
			break
		}
		for _, test := range t.unfinished {
			skip = strings.TrimPrefix(skip+"|^"+test+"$", "|")
		}
	}
	return t, err
}

// confirm runs a test alone, with tare and with net/http, and reports it if it still differs.
func (c *comparison) confirm(ctx context.Context, mode, test string) error {
	only := "^" + regexp.QuoteMeta(test) + "$"
	got, err := c.run(ctx, c.program, mode, only, "")
	if err != nil {
		return err
	}
	want, err := c.run(ctx, c.program, reference, only, "")
	if err != nil {
		return err
	}
	if want.outcomes[test] != passed || got.outcomes[test] == passed &&
		(c.Script == "" || got.output[test] == want.output[test]) {
		c.out.Unsteady++
		return nil
	}
	d := difference{Mode: mode, Package: c.program.ImportPath, Test: test, Reason: c.reason(mode, test)}
	c.out.Differences = append(c.out.Differences, d)
	if d.Reason != "" {
		return nil
	}
	fmt.Fprintf(c.log, "%s: %s %s\n", mode, d.Package, test)
	for _, name := range slices.Sorted(maps.Keys(got.output)) {
		if top(name) == test && got.outcomes[name] != passed {
			fmt.Fprint(c.log, excerpt(got.output[name]))
		}
	}
	if c.Script != "" {
		fmt.Fprint(c.log, "with tare:\n", excerpt(got.output[test]), "with net/http:\n", excerpt(want.output[test]))
	}
	return nil
}

// excerpt returns the start of a text, indented.
func excerpt(text string) string {
	const most = 1500
	return "\t" + strings.ReplaceAll(strings.TrimSpace(text[:min(most, len(text))]), "\n", "\n\t") + "\n"
}
