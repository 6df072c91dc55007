package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// result is what a suite's run has shown in all modes.
type result struct {
	Name        string       `json:"name"`
	Go          string       `json:"go"`
	Tests       int          `json:"tests"`  // that pass with net/http
	Failed      int          `json:"failed"` // that fail with net/http, too
	Unsteady    int          `json:"unsteady"`
	Modes       []string     `json:"modes"`
	Seconds     int          `json:"seconds"`
	Differences []difference `json:"differences"`
	Problems    []string     `json:"problems"` // why a part of the suite shows nothing
}

// difference is a test that passes with net/http and not with tare.
type difference struct {
	Mode    string `json:"mode"`
	Package string `json:"package"`
	Test    string `json:"test"`
	Reason  string `json:"reason"` // "" if no document has it
	output  string
}

// runSuite runs a suite's tests in all modes.
func (r *runner) runSuite(ctx context.Context, s *suite) (*result, error) {
	began := time.Now()
	p, err := r.newProject(ctx, s.Module, s.Version, s.Tags)
	if err != nil {
		return nil, err
	}
	if os.Getenv("KEEP") == "" {
		defer os.RemoveAll(p.work)
	}
	packages, err := p.packages(ctx, s.Packages)
	if err != nil {
		return nil, err
	}
	box, err := newSandbox(filepath.Join(p.work, "home"))
	if err != nil {
		return nil, err
	}
	out := &result{Name: p.name, Go: r.goVersion, Modes: r.modesOf(s)}
	for i, t := range packages {
		t.program = filepath.Join(p.work, fmt.Sprint("test", i))
		if err := p.build(ctx, t.program, t.ImportPath, true); err != nil {
			out.Problems = append(out.Problems, fmt.Sprintf("%s: %v", t.ImportPath, err))
			continue
		}
		if s.Module != "std" {
			if err := box.own(p.work); err != nil {
				return nil, err
			}
		}
		c := comparison{runner: r, suite: s, box: box, pkg: t, out: out}
		if err := c.run(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", t.ImportPath, err)
		}
		if err := os.Remove(t.program); err != nil {
			return nil, err
		}
	}
	out.Seconds = int(time.Since(began).Seconds())
	return out, ctx.Err()
}

// comparison compares the tests of a package.
type comparison struct {
	*runner
	suite *suite
	box   *sandbox
	pkg   testPackage
	out   *result
}

func (c *comparison) run(ctx context.Context) error {
	skip := strings.Join(slices.Sorted(maps.Keys(c.suite.Skip)), "|")
	base, err := c.box.test(ctx, c.pkg, reference, "", skip, c.suite.limit())
	if err != nil {
		return err
	}
	if len(base.outcomes) == 0 {
		c.out.Problems = append(c.out.Problems, c.pkg.ImportPath+": no test ran: "+lastLines(base.output[""]))
		return nil
	}
	for _, o := range base.outcomes {
		switch o {
		case passed:
			c.out.Tests++
		case failed:
			c.out.Failed++
		}
	}
	served := false
	for _, mode := range c.out.Modes {
		t, err := c.runMode(ctx, mode, skip)
		if err != nil {
			return err
		}
		served = served || t.served
		if err := c.compare(ctx, mode, base, t); err != nil {
			return err
		}
	}
	if !served {
		c.out.Tests -= count(base, passed)
		c.out.Failed -= count(base, failed)
	}
	return ctx.Err()
}

// runMode runs all tests in a mode. If a test hangs or ends the program, the others run again without
// it.
func (c *comparison) runMode(ctx context.Context, mode, skip string) (*trial, error) {
	const mostRuns = 5
	for range mostRuns {
		t, err := c.box.test(ctx, c.pkg, mode, "", skip, c.suite.limit())
		if err != nil || len(t.unfinished) == 0 {
			return t, err
		}
		for _, test := range t.unfinished {
			skip = strings.TrimPrefix(skip+"|^"+regexp.QuoteMeta(test)+"$", "|")
		}
	}
	return c.box.test(ctx, c.pkg, mode, "", skip, c.suite.limit())
}

func count(t *trial, o outcome) (n int) {
	for _, got := range t.outcomes {
		if got == o {
			n++
		}
	}
	return n
}

// compare runs again alone what differs, with net/http, too, and reports what differs still.
func (c *comparison) compare(ctx context.Context, mode string, base, t *trial) error {
	differing := make(map[string]bool) // by top-level test
	for test, want := range base.outcomes {
		if got := t.outcomes[test]; want == passed && got != passed && t.outcomes[top(test)] != passed {
			differing[top(test)] = true
		}
	}
	for _, test := range slices.Sorted(maps.Keys(differing)) {
		only := "^" + regexp.QuoteMeta(test) + "$"
		again, err := c.box.test(ctx, c.pkg, mode, only, "", c.suite.limit())
		if err != nil {
			return err
		}
		if again.outcomes[test] == passed {
			c.out.Unsteady++
			continue
		}
		alone, err := c.box.test(ctx, c.pkg, reference, only, "", c.suite.limit())
		if err != nil {
			return err
		}
		if alone.outcomes[test] != passed {
			c.out.Unsteady++
			continue
		}
		c.report(mode, test, again)
	}
	return nil
}

// report reports the innermost tests that have failed, or the test that hangs or ends the program.
func (c *comparison) report(mode, test string, t *trial) {
	var inner []string
	for name, o := range t.outcomes {
		isInner := !slices.ContainsFunc(slices.Collect(maps.Keys(t.outcomes)), func(other string) bool {
			return strings.HasPrefix(other, name+"/") && t.outcomes[other] == failed
		})
		if o == failed && top(name) == test && isInner {
			inner = append(inner, name)
		}
	}
	if len(inner) == 0 {
		inner = []string{test}
	}
	for _, name := range slices.Sorted(slices.Values(inner)) {
		d := difference{Mode: mode, Package: c.pkg.ImportPath, Test: name, Reason: c.suite.reason(mode, name)}
		if d.output = t.output[name]; d.output == "" {
			d.output = t.output[""]
		}
		c.out.Differences = append(c.out.Differences, d)
		if d.Reason == "" {
			fmt.Fprintf(c.log, "%s: %s %s\n%s\n", mode, c.pkg.ImportPath, name, lastLines(d.output))
		}
	}
}

// lastLines returns the end of a text.
func lastLines(text string) string {
	const most = 2000
	return "\t" + strings.ReplaceAll(text[max(0, len(text)-most):], "\n", "\n\t")
}
