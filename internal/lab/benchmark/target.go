package benchmark

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
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

	Blocks  int          `yaml:"blocks"`  // 0 is the trials'
	Targets []lab.Target `yaml:"targets"` // their metrics are units, such as ns/op
}

// Count is a target of several rows together: in how many of them the ratio of a metric is at most
// Within.
type Count struct {
	Name      string        `yaml:"name"`
	Rows      string        `yaml:"rows"` // a pattern of names
	Contender string        `yaml:"contender"`
	Metric    sample.Metric `yaml:"metric"`
	Reference string        `yaml:"reference"`
	Within    float64       `yaml:"within"`
	Require   lab.Limit     `yaml:"require"`
	Aim       lab.Limit     `yaml:"aim"`
}

// concerns reports whether an engine takes part in the row.
func (r *TargetRow) concerns(engine string) bool {
	return len(r.Targets) == 0 || slices.ContainsFunc(r.Targets, func(t lab.Target) bool {
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
	return sample.Target{
		Row: c.Name, Contender: c.Contender, Metric: c.Metric, Reference: c.Reference,
		Require: c.Require.Limit, Aim: c.Aim.Limit, Rows: c.of(rows), Within: c.Within,
	}
}

// SetBlocks sets the number of blocks, of rows with their own, too.
func (t *Trials) SetBlocks(n int) { t.Blocks, t.areExact = n, true }

// checkTargets returns a *yamlfile.Error for the first invalid target.
func (e *Experiment) checkTargets(f *yamlfile.File) error {
	for i := range e.Targets {
		if what := e.faultOf(&e.Targets[i]); what != "" {
			return f.Fault(fmt.Sprintf("$.targets[%d]", i), "targets: %s", what)
		}
	}
	for i := range e.Counts {
		c := &e.Counts[i]
		what := e.faultOfPair(c.Contender, c.Reference, c.Metric)
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
	for _, t := range r.Targets {
		if what := e.faultOfPair(t.Contender, t.Reference, t.Metric); what != "" {
			return what
		}
	}
	return ""
}

// faultOfPair describes an invalid contender, reference or metric of a target.
func (e *Experiment) faultOfPair(of, reference string, metric sample.Metric) string {
	switch {
	case e.engine(of) == nil || reference != "" && e.engine(reference) == nil:
		return fmt.Sprintf("want names of engines, got %q and %q", of, reference)
	case metric == "":
		return "metric is missing (a unit such as ns/op)"
	}
	return ""
}

// FindTargets returns the experiments with targets in the project's folder root.
func FindTargets(root string) (all []*Experiment, err error) {
	dir := filepath.Join(root, "experiments", lab.TargetsDir)
	names, err := lab.Experiments(dir, lab.Benchmarks)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		e, err := ReadExperiment(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}
