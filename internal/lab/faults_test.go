package lab_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab"
	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/explain"
	"github.com/tarehq/tare/internal/lab/report"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/yamlfile"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// faultTest is a contender with one fault, and the cause that the report must name.
type faultTest struct {
	experiment, contender string
	cause                 explain.Cause
	quick                 bool // it shows in a short trial on a busy machine
	counted               bool // it requires the right to count system calls
}

func faultTests() []faultTest {
	return []faultTest{
		{"faults/plain", "faults/closes", explain.NoClientKeepAlive, true, false},
		{"faults/plain", "faults/nagle", explain.DelayedACK, true, false},
		{"faults/plain", "faults/pieces", explain.SmallWrites, true, true},
		{"faults/plain", "faults/logs", explain.AccessLog, false, false},
		{"faults/plain", "faults/allocates", explain.Allocation, false, false},
		{"faults/cores", "faults/one-worker", explain.OneCore, false, false},
		{"faults/cores", "faults/lock", explain.OneCore, false, false},
		{"faults/cores", "faults/crowded", explain.Oversubscribed, false, false},
		{"faults/front", "faults/unkept", explain.NoBackendKeepAlive, false, false},
		{"faults/disk", "faults/buffered", explain.BufferedToDisk, false, true},
	}
}

// weighFaults runs the tested contenders of one experiment briefly.
func weighFaults(t *testing.T, experiment string, o lab.Options, tests []faultTest) *sample.Run {
	t.Helper()
	o.Root, o.Experiment, o.Out = programs.Root(t), experiment, t.TempDir()
	for _, test := range tests {
		if test.experiment == experiment {
			o.Only = append(o.Only, test.contender)
		}
	}
	run, _, err := lab.Weigh(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range run.Entrants {
		if e.Absent != "" {
			t.Fatalf("%s: %s", e.Name, e.Absent)
		}
	}
	return run
}

// quickly makes an experiment as short as possible.
func quickly(trials *lab.Trials) {
	trials.Blocks, trials.Warmup, trials.Measure = 2, yamlfile.Duration(100*time.Millisecond),
		yamlfile.Duration(300*time.Millisecond)
}

// The report names the fault of each contender that was built with one, and none of the twin.
func TestFaultsAreNamed(t *testing.T) {
	testkit.Long(t, "it starts contenders")
	testkit.NoRace(t, slowWithRace)
	checkFaults(t, lab.Options{Adjust: quickly},
		slices.DeleteFunc(faultTests(), func(f faultTest) bool { return !f.quick }))
}

// All faults are tested for longer and with counter-experiments, in which the difference
// disappears.
func TestAllFaultsAreNamedAndTested(t *testing.T) {
	if !isSlow() {
		t.Skip("takes minutes; TARE_SLOW=1 runs it")
	}
	tests := faultTests()
	for experiment, run := range checkFaults(t, lab.Options{
		Why: true, Adjust: func(trials *lab.Trials) { trials.Blocks = 3 },
	}, tests) {
		for _, test := range tests {
			if test.experiment != experiment {
				continue
			}
			i := slices.IndexFunc(run.CounterExperiments,
				func(x sample.CounterExperiment) bool {
					return x.Contender == test.contender && x.Cause == string(test.cause)
				})
			if i < 0 {
				t.Errorf("%s: no counter-experiment of: %s", test.contender, test.cause)
				continue
			}
			x := &run.CounterExperiments[i]
			t.Logf("%s: %s", test.contender, report.CounterSentence(x))
			if x.Failure != "" || analyze.OutcomeOf(x) == analyze.Kept {
				t.Errorf("%s: %s", test.contender, report.CounterSentence(x))
			}
		}
	}
}

func checkFaults(t *testing.T, o lab.Options, tests []faultTest) map[string]*sample.Run {
	t.Helper()
	runs := make(map[string]*sample.Run)
	for _, test := range tests {
		if runs[test.experiment] != nil {
			continue
		}
		var wrong error
		for try := range triesOfFaults {
			longer := o
			longer.Adjust = func(trials *lab.Trials) {
				o.Adjust(trials)
				trials.Measure <<= try
			}
			run := weighFaults(t, test.experiment, longer, tests)
			runs[test.experiment] = run
			if wrong = wrongFindings(t, test.experiment, run, tests); wrong == nil {
				break
			}
			t.Logf("try %d: %v", try+1, wrong)
		}
		if wrong != nil {
			t.Error(wrong)
		}
	}
	return runs
}

// triesOfFaults is the number of tries of an experiment, each for twice as long, until the report
// names the right causes: other programs may use the processors meanwhile.
const triesOfFaults = 4

// wrongFindings returns an error for contenders of an experiment whose causes are not the expected
// ones.
func wrongFindings(t *testing.T, experiment string, run *sample.Run, tests []faultTest) (wrong error) {
	t.Helper()
	a := analyze.Analyze(run)
	findings := make(map[string][]explain.Finding)
	for _, w := range a.Tables[0].Why {
		findings[w.Name] = w.Findings
	}
	for _, f := range findings["twin"] {
		wrong = errors.Join(wrong, fmt.Errorf("%s: a fault of the twin: %s", experiment, f.Sentence))
	}
	for _, test := range tests {
		if test.experiment == experiment {
			wrong = errors.Join(wrong, checkFault(t, test, run, findings[test.contender]))
		}
	}
	return wrong
}

func checkFault(t *testing.T, test faultTest, run *sample.Run, found []explain.Finding) error {
	t.Helper()
	if test.counted && !slices.ContainsFunc(run.Records,
		func(r sample.Record) bool { return r.Attribution != nil && r.Attribution.Calls != nil }) {
		t.Logf("%s: not checked: system calls cannot be counted here", test.contender)
		return nil
	}
	for _, f := range found {
		t.Logf("%s: %s", test.contender, f.Sentence)
	}
	if len(found) != 1 || found[0].Cause != test.cause {
		return fmt.Errorf("%s: %d causes found, want one: %s", test.contender, len(found), test.cause)
	}
	return nil
}

func TestTogglesNameExistingSettingsAndContenders(t *testing.T) {
	root := programs.Root(t)
	settings := explain.Settings()
	var files []string
	for _, pattern := range []string{"*", "*/*"} {
		found, err := filepath.Glob(filepath.Join(root, "contenders", pattern, contender.FileName))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	toggles := 0
	for _, file := range files {
		s, err := contender.ReadSpec(filepath.Dir(file))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, x := range s.Toggles {
			toggles++
			if !slices.Contains(settings, explain.Setting(x.Setting)) {
				t.Errorf("%s: no rule uses the setting %q; want one of %v", file, x.Setting, settings)
			}
			if x.Contender != "" {
				if _, err := contender.ReadSpec(filepath.Join(root, "contenders", x.Contender)); err != nil {
					t.Errorf("%s: %v", file, err)
				}
			}
		}
	}
	if toggles == 0 {
		t.Error("no toggles were found")
	}
}
