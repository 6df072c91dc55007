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
		Title: "well", Protocol: explain.HTTP, Cores: 2, Connections: 32,
		Parts: []explain.Part{{
			Role: "application", UserUs: 9, SysUs: 9, Voluntary: 0.01, Involuntary: 0.01,
			Calls: map[string]float64{"read": 2, "write": 1}, AllocBytes: 1200, GCShare: 0.02,
		}},
		PerSecond: 100_000, MeanUs: 320, Bytes: 153, Statuses: map[int]float64{200: 1}, GeneratorBusy: 0.4,
		Demand: 2,
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
			explain.ExtraHop, plain,
			func(e *explain.Evidence) { *e = fronted() },
			func(e *explain.Evidence) { *e = fronted(); e.Parts[0].UserUs, e.Parts[0].SysUs = 0.4, 0.5 },
			"its nginx receives and forwards each request, which costs 20 µs, with 2.0 reads and 2.0 writes: nearly all of the 20 µs difference",
			explain.Hop, 1,
		},
		{
			explain.FastCGIRecords, plain,
			func(e *explain.Evidence) {
				e.Protocol = explain.FastCGI
				heavier(e, 45)
				app(e).Calls = map[string]float64{"read": 7, "write": 4}
			},
			func(e *explain.Evidence) { e.Protocol = explain.FastCGI; heavier(e, 0.9) },
			"the application speaks FastCGI, which costs it 45 µs more, with 7.0 reads and 4.0 writes (HTTP: 2.0 and 1.0): nearly all of the 45 µs difference",
			explain.Protocol, 1,
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
			explain.LongerHead, plain,
			func(e *explain.Evidence) { heavier(e, 0.2); e.Bytes = 190 },
			func(e *explain.Evidence) { heavier(e, 0.2); e.Bytes = 160 },
			"its responses are 37 bytes longer than the 153 bytes of well: about 0.1 µs of the 0.2 µs",
			explain.Header, 0.74,
		},
		{
			explain.SmallWrites, plain,
			func(e *explain.Evidence) { heavier(e, 50); app(e).Calls = map[string]float64{"write": 11} },
			func(e *explain.Evidence) { heavier(e, 50); app(e).Calls = map[string]float64{"write": 3.9} },
			"the application sends a response in 11.0 writes (well: 1.0): about 25 µs of the 50 µs",
			explain.Writes, 0.5,
		},
		{
			explain.GeneratorBound, plain,
			func(e *explain.Evidence) { e.GeneratorBusy, e.PerSecond = 0.95, 50_000 },
			func(e *explain.Evidence) { e.GeneratorBusy = 0.95 }, // the servers are as busy
			"the load generator was 95 % busy while the servers used 0.9 of 2 processors: the generator limits the rate",
			explain.Generator, 1,
		},
		{
			explain.Queueing, plain,
			func(e *explain.Evidence) { e.PerSecond, e.MeanUs = 64_000, 500; app(e).SysUs += 10 },
			// This is against Little's law.
			func(e *explain.Evidence) { e.PerSecond, e.MeanUs = 64_000, 550; app(e).SysUs += 10 },
			"its mean latency is 500 µs, but a request uses only 28 µs of CPU time: the rest is queueing, because 32 connections share busy processors",
			explain.Connections, 0.944,
		},
		{
			explain.ConnectFailures, plain,
			func(e *explain.Evidence) {
				e.Errors, e.ErrorTexts = 0.02, []string{"connect: cannot assign requested address"}
			},
			func(e *explain.Evidence) { e.Errors, e.ErrorTexts = 0.02, []string{"read: connection reset by peer"} },
			"no local ports were left for outgoing connections: 2 % of all requests failed",
			explain.Backlog, 1,
		},
		{
			explain.ConnectFailures, plain,
			func(e *explain.Evidence) { e.RetriedShare = 0.013 },
			func(e *explain.Evidence) { e.RetriedShare = 0.0009 },
			"1.3 % of client connections took at least a second to open (well: 0.0 %), as",
			explain.Backlog, 1,
		},
		{
			explain.ConnectFailures, fronted,
			func(e *explain.Evidence) { e.Statuses = map[int]float64{200: 0.9, 502: 0.1} },
			func(e *explain.Evidence) { e.Statuses = map[int]float64{200: 0.9, 404: 0.1} },
			"its nginx responded to 10.0 % of requests with status 502 or 503",
			explain.Backlog, 1,
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

// closing returns the evidence of a server that serves one request per connection.
func closing() explain.Evidence {
	e := plain()
	e.Connects = 1
	app(&e).Calls = map[string]float64{"accept4": 1, "setsockopt": 1, "read": 1, "write": 1, "close": 1}
	return e
}

// lightTests are for rules about work that a contender avoids.
func lightTests() []ruleTest {
	return []ruleTest{
		{
			explain.LessCode, plain,
			func(e *explain.Evidence) { app(e).UserUs = 4 },
			func(e *explain.Evidence) { app(e).UserUs = 7.3 }, // by less than ownBound
			"its own code uses 4.0 µs of user time per request (well: 9.0 µs): nearly all of the 5.0 µs difference",
			"", 1,
		},
		{
			explain.LessKernel, plain,
			func(e *explain.Evidence) {
				app(e).SysUs, app(e).Calls = 6, map[string]float64{"recvfrom": 1, "sendto": 1}
			},
			func(e *explain.Evidence) { app(e).SysUs, app(e).Calls = 6, map[string]float64{"read": 1.9, "write": 1} },
			"it makes 2.0 system calls per request (well: 3.0; reads 1.0 instead of 2.0, the second of which finds no data), and the kernel uses 6.0 µs instead of 9.0 µs: nearly all of the 3.0 µs difference",
			"", 1,
		},
		{
			explain.LessKernel, fronted,
			func(e *explain.Evidence) { app(e).SysUs, app(e).Calls = 1, map[string]float64{"read": 1, "write": 1} },
			func(e *explain.Evidence) { app(e).SysUs, app(e).Calls = 6, map[string]float64{"read": 1, "write": 1} },
			"it makes 2.0 system calls per request (nginx → well: 3.0; reads 1.0 instead of 2.0), and the kernel", // nginx may send in several pieces
			"", 1,
		},
		{
			explain.LessKernel, uncounted,
			func(e *explain.Evidence) { app(e).SysUs = 6 },
			func(e *explain.Evidence) { app(e).SysUs = 9.1 },
			"the kernel uses 6.0 µs of system time per request (well: 9.0 µs; system calls were not counted): nearly all of the 3.0 µs",
			"", 1,
		},
		{
			explain.LessSwitching, func() explain.Evidence { e := plain(); app(&e).Voluntary = 1; return e },
			func(e *explain.Evidence) { app(e).SysUs, app(e).Voluntary = 6, 0.01 },
			func(e *explain.Evidence) { app(e).SysUs, app(e).Voluntary = 6, 0.96 },
			"a request causes 0.02 context switches (well: 1.0): nearly all of the 3.0 µs difference",
			"", 0.99,
		},
		{
			explain.LessMemory, func() explain.Evidence { e := plain(); app(&e).GCShare = 0.25; return e },
			func(e *explain.Evidence) { app(e).UserUs, app(e).GCShare, app(e).AllocBytes = 4.7, 0.015, 200 },
			func(e *explain.Evidence) { app(e).UserUs, app(e).GCShare = 4.7, 0.31 },
			"the garbage collector of well uses 25 % of the application's CPU time, for 1200 bytes allocated per request; its own uses 2 %, for 200 bytes: nearly all of the 4.3 µs difference",
			explain.Memory, 0.999,
		},
		{
			explain.MoreCode, plain,
			func(e *explain.Evidence) { app(e).UserUs, e.PerSecond, e.Interpreter = 109, 8000, "Python" },
			func(e *explain.Evidence) { app(e).UserUs = 10.7 },
			"its own code uses 109 µs of user time per request (well: 9.0 µs), as it is interpreted by Python: nearly all of the 100 µs difference",
			"", 1,
		},
		{
			explain.ConnectionWork, closing,
			func(e *explain.Evidence) {
				heavier(e, 4)
				app(e).Calls = map[string]float64{"accept4": 1, "setsockopt": 5, "read": 1, "write": 1, "close": 1}
			},
			func(e *explain.Evidence) {
				heavier(e, 4)
				app(e).Calls = map[string]float64{"accept4": 1, "setsockopt": 1.4, "read": 1, "write": 1, "close": 1}
			},
			"each request uses a new connection, for which it makes 7.0 system calls (well: 3.0): about 2.0 µs of the 4.0 µs difference",
			"", 0.5,
		},
		{
			explain.OneCore, plain,
			func(e *explain.Evidence) { e.Demand, e.PerSecond, e.MeanUs, e.Interpreter = 1, 50_000, 640, "Python" },
			func(e *explain.Evidence) { e.Demand, e.Cores = 1, 1 },
			"its threads can use 1.0 of 2 processors (well: 2.0); Python runs one thread per process at a time",
			explain.Workers, 1,
		},
		{ // what only the control has makes the control heavier
			explain.ExtraHop, fronted,
			func(e *explain.Evidence) { *e = plain() },
			func(e *explain.Evidence) { e.Parts[0].SysUs -= 3 },
			"nginx → well costs more: its nginx receives and forwards each request, which costs 20 µs, with 2.0 reads and 2.0 writes: nearly all of the 20 µs difference",
			explain.Hop, 1,
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

func uncounted() explain.Evidence {
	e := plain()
	app(&e).Calls = nil
	return e
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
	tested := map[explain.Cause]bool{explain.Noise: true} // TestSmallDifferencesMayBeChance
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

func TestSmallDifferencesMayBeChance(t *testing.T) {
	c := explain.Case{Of: plain(), Control: plain()}
	twin := plain()
	c.Twin = &twin
	app(&twin).UserUs += 1.8 // a tenth
	heavier(&c.Of, 3.5)
	c.Of.OthersCPUs = 0.7
	found := explain.Explain(c)
	want := "the twin, a second copy of the control, differs from it by 10 %, and other programs used 0.7 processors: a difference of 19 % may be chance"
	if len(found) != 1 || found[0].Cause != explain.Noise || found[0].Sentence != want {
		t.Errorf("%+v", found)
	}
	heavier(&c.Of, 0.2) // more than twice the twin's difference
	if found := explain.Explain(c); len(found) != 0 {
		t.Errorf("%+v", found)
	}
	app(&twin).UserUs -= 1 // now below twinBound
	c.Of = plain()
	if found := explain.Explain(c); len(found) != 0 {
		t.Errorf("%+v", found)
	}
}

// A lighter contender is explained if chance is excluded. The twin never is.
func TestSavingsWithinChanceAreNotExplained(t *testing.T) {
	c := explain.Case{Of: plain(), Control: plain()}
	app(&c.Of).UserUs = 6
	if found := explain.Explain(c); len(found) != 1 || found[0].Cause != explain.LessCode ||
		found[0].Counter.ChangesControl {
		t.Errorf("%+v", found)
	}
	again := c
	again.IsTwin = true
	if found := explain.Explain(again); len(found) != 0 {
		t.Errorf("of the twin: %+v", found)
	}
	twin := plain()
	app(&twin).UserUs += 1.6 // about half as much
	c.Twin = &twin
	if found := explain.Explain(c); len(found) != 1 || found[0].Cause != explain.Noise {
		t.Errorf("%+v", found)
	}
	c.HasDifference = true // the ratios of slices show it, whatever the twin's difference
	if found := explain.Explain(c); len(found) != 1 || found[0].Cause != explain.LessCode {
		t.Errorf("%+v", found)
	}
}

// The cause with the largest share comes first. Causes with negligible shares are left out.
func TestCausesAreOrderedByShare(t *testing.T) {
	c := explain.Case{Of: plain(), Control: plain()}
	heavier(&c.Of, 50)
	c.Of.Connects = 1
	app(&c.Of).Calls = map[string]float64{"write": 7}
	c.Of.Bytes = 172
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
	if explain.RetriedConnects().Contains(900e3) || !explain.RetriedConnects().Contains(1e6) ||
		!explain.RetriedConnects().Contains(3.1e6) {
		t.Error("connections that were retried")
	}
}

// A web server without an application behind it is not a hop.
func TestServerAloneIsNotAHop(t *testing.T) {
	alone := fronted()
	alone.Parts = alone.Parts[:1]
	for _, f := range explain.Explain(explain.Case{Of: alone, Control: plain()}) {
		if f.Cause == explain.ExtraHop {
			t.Error(f.Sentence)
		}
	}
}

// A cause with a negligible share does not stop fallback rules.
func TestNegligibleCauseDoesNotStopFallbackRules(t *testing.T) {
	control, of := plain(), plain()
	of.Interpreter = "Ruby"
	heavier(&of, 100)
	app(&of).SysUs -= 100
	app(&of).UserUs += 100
	of.Bytes += 37
	found := explain.Explain(explain.Case{Of: of, Control: control})
	if len(found) == 0 || found[0].Cause != explain.MoreCode ||
		!strings.Contains(found[0].Sentence, "interpreted by Ruby") {
		t.Errorf("%+v", found)
	}
}
