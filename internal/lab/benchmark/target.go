package benchmark

import (
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/tarehq/tare/internal/lab"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/yamlfile"
)

// TargetRow is a benchmark with targets of its figures.
type TargetRow struct {
	Name      string `yaml:"name"`
	Benchmark string `yaml:"benchmark"`  // without "Benchmark" and the engine's prefix
	Procs     int    `yaml:"gomaxprocs"` // 0 is the number of processors
	Once      bool   `yaml:"once"`       // one iteration, however long it takes

	// Run has the arguments of each load generator, in place of Benchmark, with {url} and {seconds}.
	// Set are settings of the server's nginx.conf.
	Run map[string]string `yaml:"run"`
	Set map[string]string `yaml:"set"`

	Blocks  int             `yaml:"blocks"`  // 0 is the trials'
	Targets []sample.Target `yaml:"targets"` // their metrics are units, such as ns/op
}

// Count is a target of several rows together: in how many of them the ratio of a metric is at most
// Within.
type Count struct {
	Name          string  `yaml:"name"`
	Rows          string  `yaml:"rows"` // a pattern of names
	Within        float64 `yaml:"within"`
	sample.Target `yaml:",inline"`
}

// concerns reports whether an engine takes part in the row.
func (r *TargetRow) concerns(engine string) bool {
	return slices.ContainsFunc(r.Targets, func(t sample.Target) bool {
		return t.Contender == engine || t.Reference == engine
	})
}

// of returns the rows that the count is about.
func (c *Count) of(rows []string) (all []string) {
	for _, row := range rows {
		if ok, err := path.Match(c.Rows, row); ok && err == nil {
			all = append(all, row)
		}
	}
	return all
}

// target returns the count as a target of a run with these rows.
func (c *Count) target(rows []string) sample.Target {
	t := c.Target
	t.Row, t.Rows, t.Within = c.Name, c.of(rows), c.Within
	return t
}

// adjust applies a change of trials under load, whose measured time stands for the time. f may be
// nil.
func (t *Trials) adjust(f func(*lab.Trials)) {
	if f == nil {
		return
	}
	under := lab.Trials{Blocks: t.Blocks, Measure: t.Time}
	f(&under)
	t.Blocks, t.Time, t.areExact = under.Blocks, under.Measure, under.AreExact()
}

// checkTargets returns a *yamlfile.Error for the first invalid target.
func (e *Experiment) checkTargets(f *yamlfile.File) error {
	for i := range e.Targets {
		if what := e.faultOf(&e.Targets[i]); what != "" {
			return f.Fault(fmt.Sprintf("$.targets[%d]", i), "targets: %s", what)
		}
	}
	for i := range e.Counts {
		c := &e.Counts[i]
		what := e.faultOfTarget(&c.Target)
		if _, err := path.Match(c.Rows, ""); err != nil || len(c.of(e.Rows())) == 0 || c.Name == "" || !(c.Within > 0) {
			what = "want name, rows, a pattern, and within, a ratio above 0"
		}
		if what != "" {
			return f.Fault(fmt.Sprintf("$.counts[%d]", i), "counts: %s", what)
		}
	}
	return nil
}

// faultOf describes the first invalid value of a row.
func (e *Experiment) faultOf(r *TargetRow) string {
	switch {
	case r.Name == "" || len(r.Targets) == 0 || r.Benchmark == "" == (len(r.Run) == 0):
		return "want name, targets, and benchmark or run"
	case len(r.Run) > 0 != (e.Server != ""):
		return "benchmark requires module, and run requires server"
	case r.Procs < 0 || r.Procs > maxProcs:
		return fmt.Sprintf("gomaxprocs: want 0 to %d, got %d", maxProcs, r.Procs)
	case r.Blocks < 0 || r.Blocks > maxBlocks:
		return fmt.Sprintf("blocks: want 0 to %d, got %d", maxBlocks, r.Blocks)
	}
	for _, name := range slices.Sorted(maps.Keys(r.Run)) {
		if e.engine(name) == nil {
			return fmt.Sprintf("run: want names of engines, got %q", name)
		}
	}
	for i := range r.Targets {
		if what := e.faultOfTarget(&r.Targets[i]); what != "" {
			return what
		}
	}
	return ""
}

// faultOfTarget describes an invalid contender, reference or metric.
func (e *Experiment) faultOfTarget(t *sample.Target) string {
	switch {
	case e.engine(t.Contender) == nil || t.Reference != "" && e.engine(t.Reference) == nil:
		return fmt.Sprintf("want names of engines, got %q and %q", t.Contender, t.Reference)
	case t.Metric == "":
		return "metric is missing (a unit such as ns/op)"
	}
	return ""
}
