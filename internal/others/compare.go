package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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

func (c *comparison) compare(ctx context.Context, modes []string) error {
	want, err := c.run(ctx, c.program, reference, c.Run, "")
	if err != nil {
		return err
	}
	isServed := false
	for _, mode := range modes {
		got, err := c.runAll(ctx, mode)
		if err != nil {
			return err
		}
		if isServed = isServed || got.isServed; !isServed && mode == "both" {
			break // nor is it in the other modes
		}
		differing := make(map[string]bool) // tests, and subtests of the first level
		for test, outcome := range want.outcomes {
			if outcome == "PASS" && got.outcomes[test] != "PASS" && got.outcomes[top(test)] != "PASS" ||
				c.Script != "" && got.text != want.text {
				differing[firstLevel(test)] = true
			}
		}
		for test := range differing {
			if test != top(test) {
				delete(differing, top(test))
			}
		}
		for _, test := range slices.Sorted(maps.Keys(differing)) {
			if err := c.confirm(ctx, mode, test); err != nil {
				return err
			}
		}
	}
	for _, outcome := range want.outcomes {
		switch {
		case !isServed: // such a program shows nothing
		case outcome == "PASS":
			c.out.Tests++
		case outcome != "SKIP":
			c.out.Failed++
		}
	}
	return ctx.Err()
}

// runAll runs all tests in a mode. If a test hangs or ends the program, the others run again
// without it.
func (c *comparison) runAll(ctx context.Context, mode string) (t *trial, err error) {
	const mostRuns = 6
	skip := ""
	for range mostRuns {
		if t, err = c.run(ctx, c.program, mode, c.Run, skip); err != nil || len(t.unfinished) == 0 {
			break
		}
		skip = strings.TrimPrefix(skip+"|^("+strings.Join(t.unfinished, "|")+")$", "|")
	}
	return t, err
}

// confirm runs a test or subtest alone, with tare and with net/http, and reports it if it still
// differs.
func (c *comparison) confirm(ctx context.Context, mode, test string) error {
	only := "^" + strings.ReplaceAll(regexp.QuoteMeta(test), "/", "$/^") + "$"
	got, err := c.run(ctx, c.program, mode, only, "")
	if err != nil {
		return err
	}
	want, err := c.run(ctx, c.program, reference, only, "")
	if err != nil {
		return err
	}
	if want.outcomes[test] != "PASS" || got.outcomes[test] == "PASS" && (c.Script == "" || got.text == want.text) {
		c.out.Unsteady++
		return nil
	}
	d := difference{Mode: mode, Package: c.program.ImportPath, Test: test, Reason: c.reason(mode, test)}
	if c.out.Differences = append(c.out.Differences, d); d.Reason != "" {
		return nil
	}
	text := got.text
	if c.Script != "" {
		a, b := filepath.Join(c.work, "net-http"), filepath.Join(c.work, "tare")
		err = errors.Join(os.WriteFile(a, []byte(want.text), 0o644), os.WriteFile(b, []byte(got.text), 0o644))
		out, _ := exec.CommandContext(ctx, "diff", "-U1", a, b).Output() // it fails where they differ
		text = string(out)
	}
	const most = 3000
	fmt.Fprintf(c.log, "%s: %s %s\n%s\n", mode, d.Package, test, text[:min(most, len(text))])
	return err
}
