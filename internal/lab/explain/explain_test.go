package explain_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/lab/explain"
)

// plain returns the evidence of a server without faults, with figures like a real one's.
func plain() explain.Evidence {
	return explain.Evidence{
		Title: "well", Protocol: "http", Cores: 2,
		Parts: []explain.Part{{
			Role: "application", UserUs: 9, SysUs: 9, Voluntary: 0.01, Involuntary: 0.01,
			Calls: map[string]float64{"read": 2, "write": 1}, AllocBytes: 1200, GCShare: 0.02,
		}},
		PerSecond: 100_000, MeanUs: 320, Demand: 2,
	}
}

// fronted returns the evidence of the same server behind nginx.
func fronted() explain.Evidence {
	e := plain()
	e.Title = "nginx → well"
	nginx := explain.Part{Role: "nginx", UserUs: 4, SysUs: 16,
		Calls: map[string]float64{"recvfrom": 2, "writev": 2}}
	e.Parts = append([]explain.Part{nginx}, e.Parts...)
	e.PerSecond = 50_000
	return e
}

// heavier adds CPU time to the application.
func heavier(e *explain.Evidence, us float64) {
	p := &e.Parts[len(e.Parts)-1]
	p.SysUs += us
	e.PerSecond *= 18 / (18 + us)
	e.MeanUs *= (18 + us) / 18
}

func app(e *explain.Evidence) *explain.Part { return &e.Parts[len(e.Parts)-1] }

// A ruleTest has evidence on which a rule fires with a certain sentence, and evidence just below
// its threshold.
type ruleTest struct {
	cause    explain.Cause
	control  func() explain.Evidence
	fires    func(e *explain.Evidence)
	edge     func(e *explain.Evidence)
	sentence string
	setting  explain.Setting
	share    float64 // of the difference
}

func ruleTests() []ruleTest {
	return []ruleTest{
		{
			explain.NoBackendKeepAlive, fronted,
			func(e *explain.Evidence) { heavier(e, 80); e.BackendConnects = 1 },
			func(e *explain.Evidence) { heavier(e, 80); e.BackendConnects = 0.19 },
			"its nginx opens 1.0 connections to the application per request (nginx → well: none): about 40 µs of the 80 µs difference",
			explain.BackendKeepAlive, 0.5,
		},
		{
			explain.NoClientKeepAlive, plain,
			func(e *explain.Evidence) { heavier(e, 40); e.Connects = 1 },
			func(e *explain.Evidence) { heavier(e, 40); e.Connects = 0.19 },
			"clients open 1.0 connections per request (well: none): nearly all of the 40 µs difference",
			explain.ClientKeepAlive, 1,
		},
		{
			explain.DelayedACK, plain,
			func(e *explain.Evidence) {
				e.DelayedShare, e.PerSecond, e.MeanUs = 0.97, 800, 40_000
				app(e).Calls = map[string]float64{"read": 2, "write": 2}
			},
			// The processors are busy: it is a queue.
			func(e *explain.Evidence) { e.DelayedShare, e.MeanUs = 0.97, 40_000 },
			"97 % of responses take about 40 ms while the processors are 99 % idle, and a response takes 2.0 writes:",
			explain.NoDelay, 0.98,
		},
		{
			explain.BufferedToDisk, fronted,
			func(e *explain.Evidence) {
				e.Parts[0].SysUs += 30
				e.Parts[0].Calls = map[string]float64{"pwritev": 3}
				e.Parts[0].FileBytes = 64_000
			},
			func(e *explain.Evidence) {
				e.Parts[0].SysUs += 30
				e.Parts[0].Calls = map[string]float64{"pwritev": 0.09}
			},
			"its nginx writes responses to temporary files before it sends them, 64 KB in 3.0 writes per request: nearly all of the 30 µs",
			explain.Buffers, 1,
		},
		{
			explain.OneCore, plain,
			func(e *explain.Evidence) { e.Demand, e.PerSecond, e.MeanUs = 1, 50_000, 640 },
			func(e *explain.Evidence) { e.Demand, e.PerSecond, e.MeanUs = 1, 95_000, 337 }, // hardly slower
			"its threads can use 1.0 of 2 processors (well: 2.0)",
			explain.Workers, 1,
		},
		{
			explain.Oversubscribed, plain,
			func(e *explain.Evidence) { heavier(e, 6); e.Demand = 20; app(e).Involuntary = 1.01 },
			func(e *explain.Evidence) { heavier(e, 6); e.Demand = 7.9; app(e).Involuntary = 1.01 },
			"20.0 of its threads at a time are running or ready to run on 2 processors (well: 2.0); a request causes 1.0 context switches instead of 0.02: about 3.0 µs of the 6.0 µs",
			explain.Workers, 0.5,
		},
		{
			explain.AccessLog, plain,
			func(e *explain.Evidence) {
				heavier(e, 3)
				app(e).FileBytes = 90
				app(e).Calls = map[string]float64{"write": 2}
			},
			func(e *explain.Evidence) {
				heavier(e, 3)
				app(e).FileBytes = 15
				app(e).Calls = map[string]float64{"write": 2}
			},
			"it writes 90 bytes to a file per request with 1.0 more writes, as an access log does: about 1.5 µs of the 3.0 µs",
			explain.Log, 0.5,
		},
		{
			explain.SmallWrites, plain,
			func(e *explain.Evidence) { heavier(e, 50); app(e).Calls = map[string]float64{"write": 11} },
			func(e *explain.Evidence) { heavier(e, 50); app(e).Calls = map[string]float64{"write": 3.9} },
			"the application sends a response in 11.0 writes (well: 1.0): about 25 µs of the 50 µs",
			explain.Writes, 0.5,
		},
		{
			explain.Allocation, plain,
			func(e *explain.Evidence) { heavier(e, 26); app(e).AllocBytes, app(e).GCShare = 66_736, 0.15 },
			func(e *explain.Evidence) { heavier(e, 26); app(e).AllocBytes, app(e).GCShare = 17_000, 0.06 },
			"the application allocates about 67 KB per request (well: 1200 bytes), and its garbage collector uses 15 % of its CPU time: about 13 µs of the 26 µs",
			explain.Memory, 0.49,
		},
		{
			explain.Allocation, plain,
			func(e *explain.Evidence) { heavier(e, 10); app(e).GCShare = 0.25 },
			func(e *explain.Evidence) { heavier(e, 10); app(e).GCShare = 0.06 },
			"the garbage collector uses 25 % of the application's CPU time (well: 2 %): about 6.6 µs of the 10 µs",
			explain.Memory, 0.664,
		},
		{
			explain.Allocation, plain,
			func(e *explain.Evidence) { heavier(e, 10); app(e).PageFaults = 12 },
			func(e *explain.Evidence) { heavier(e, 10); app(e).PageFaults = 0.49 },
			"the application causes 12.0 page faults per request (well: none): about 8.4 µs of the 10 µs",
			explain.Memory, 0.84,
		},
	}
}

// lightTests are for rules about work that a contender avoids.
func lightTests() []ruleTest {
	return []ruleTest{
		{
			explain.OneCore, plain,
			func(e *explain.Evidence) { e.Demand, e.PerSecond, e.MeanUs, e.Interpreter = 1, 50_000, 640, "Python" },
			func(e *explain.Evidence) { e.Demand, e.Cores = 1, 1 },
			"its threads can use 1.0 of 2 processors (well: 2.0); Python runs one thread per process at a time",
			explain.Workers, 1,
		},
		{
			explain.NoClientKeepAlive,
			func() explain.Evidence { e := plain(); heavier(&e, 40); e.Connects = 1; return e },
			func(e *explain.Evidence) { *e = plain() },
			func(e *explain.Evidence) { *e = plain(); e.Connects = 0.81 },
			"well costs more: clients open 1.0 connections per request (other: none): nearly all of the 40 µs difference",
			explain.ClientKeepAlive, 1,
		},
	}
}

func TestRulesFireAboveTheirThresholdsOnly(t *testing.T) {
	for _, test := range append(ruleTests(), lightTests()...) {
		t.Run(string(test.cause), func(t *testing.T) {
			c := explain.Case{Of: test.control(), Control: test.control()}
			c.Of.Title = "other"
			edge := c
			edge.Of.Parts = slices.Clone(c.Of.Parts)
			test.fires(&c.Of)
			c.Of.Title = "other"
			found := explain.Explain(c)
			if len(found) == 0 || found[0].Cause != test.cause {
				t.Fatalf("found %+v", found)
			}
			f := found[0]
			if !strings.HasPrefix(f.Sentence, test.sentence) {
				t.Errorf("got   %s\nwant  %s", f.Sentence, test.sentence)
			}
			if f.Counter.Setting != test.setting || (f.Counter.To == "") != (test.setting == "") {
				t.Errorf("counter-experiment %+v", f.Counter)
			}
			if math.Abs(f.Share-test.share) > 0.02 {
				t.Errorf("explains %.3f of the difference, want %.3f", f.Share, test.share)
			}
			for _, other := range found[1:] {
				t.Errorf("additional finding: %+v", other)
			}
			test.edge(&edge.Of)
			for _, f := range explain.Explain(edge) {
				if f.Cause == test.cause {
					t.Errorf("below the threshold: %s", f.Sentence)
				}
			}
		})
	}
}

func TestEveryRuleHasATest(t *testing.T) {
	tested := make(map[explain.Cause]bool)
	for _, test := range append(ruleTests(), lightTests()...) {
		tested[test.cause] = true
	}
	for _, r := range explain.Rules() {
		if !tested[r.Cause] {
			t.Errorf("no test of the rule for %s", r.Cause)
		}
	}
}

// Evidence that equals the control's has no findings, and neither has empty evidence.
func TestEqualEvidenceHasNoFindings(t *testing.T) {
	for _, e := range []explain.Evidence{plain(), fronted(), {}} {
		again := e
		if found := explain.Explain(explain.Case{Of: e, Control: e, Twin: &again}); len(found) > 0 {
			t.Errorf("%s: %+v", e.Title, found)
		}
	}
}

// The control's causes explain a lighter contender if chance is excluded. The twin is never
// explained.
func TestSavingsWithinChanceAreNotExplained(t *testing.T) {
	c := explain.Case{Of: plain(), Control: plain()}
	heavier(&c.Control, 4)
	c.Control.Connects = 1
	found := func(c explain.Case) bool {
		all := explain.Explain(c)
		return len(all) == 1 && all[0].Cause == explain.NoClientKeepAlive && all[0].Counter.ChangesControl
	}
	if !found(c) {
		t.Errorf("%+v", explain.Explain(c))
	}
	again := c
	again.IsTwin = true
	if all := explain.Explain(again); len(all) != 0 {
		t.Errorf("of the twin: %+v", all)
	}
	twin := c.Control
	twin.Parts = slices.Clone(twin.Parts)
	app(&twin).UserUs += 2.2 // more than half as much
	c.Twin = &twin
	if all := explain.Explain(c); len(all) != 0 {
		t.Errorf("%+v", all)
	}
	c.HasDifference = true // the ratios of slices show it, whatever the twin's difference
	if !found(c) {
		t.Errorf("%+v", explain.Explain(c))
	}
}

// The cause with the largest share comes first. Causes with negligible shares are left out.
func TestCausesAreOrderedByShare(t *testing.T) {
	c := explain.Case{Of: plain(), Control: plain()}
	heavier(&c.Of, 50)
	c.Of.Connects = 1
	app(&c.Of).Calls = map[string]float64{"write": 7}
	found := explain.Explain(c)
	if len(found) != 2 || found[0].Cause != explain.NoClientKeepAlive || found[1].Cause != explain.SmallWrites {
		t.Errorf("%+v", found)
	}
}

func TestBandsOfDelays(t *testing.T) {
	for us, want := range map[float64]bool{30_000: false, 40_000: true, 44_000: true, 60_000: false} {
		if explain.DelayedACKs().Contains(us) != want {
			t.Errorf("%v µs delayed: %v", us, !want)
		}
	}
}
