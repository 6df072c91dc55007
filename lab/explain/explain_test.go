package explain_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/tarehq/tare/lab/explain"
)

// plain is a server with nothing wrong: its figures are about those of a real one.
func plain() explain.Evidence {
	return explain.Evidence{
		Title: "well", Protocol: explain.HTTP, Cores: 2, Connections: 32,
		Parts: []explain.Part{{
			Role: "application", UserUs: 9, SysUs: 9, Voluntary: 0.01, Involuntary: 0.01, Processes: 1, Threads: 5, RSS: 12e6,
			Calls: map[string]float64{"read": 2, "write": 1}, AllocBytes: 1200, GCShare: 0.02,
		}},
		PerSecond: 100_000, MeanUs: 320, P50Us: 300, Bytes: 153, Statuses: map[int]float64{200: 1}, GeneratorBusy: 0.4, Demand: 2,
	}
}

// fronted is the same behind nginx.
func fronted() explain.Evidence {
	e := plain()
	e.Title = "nginx → well"
	nginx := explain.Part{Role: "nginx", UserUs: 4, SysUs: 16, Processes: 2, Threads: 2, Calls: map[string]float64{"recvfrom": 2, "writev": 2}}
	e.Parts = append([]explain.Part{nginx}, e.Parts...)
	e.PerSecond = 50_000
	return e
}

// heavier lets a part of the application's time be of a cause.
func heavier(e *explain.Evidence, us float64) {
	p := &e.Parts[len(e.Parts)-1]
	p.SysUs += us
	e.PerSecond *= 18 / (18 + us)
	e.MeanUs *= (18 + us) / 18
}

func app(e *explain.Evidence) *explain.Part { return &e.Parts[len(e.Parts)-1] }

// ruleTests are, of each rule, evidence on which it fires with a certain sentence, and evidence
// on the edge on which it does not.
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
			"for each request its nginx opens 1.0 connections to the application, where with nginx → well it opens none: about 40 µs of the 80 µs that it costs more",
			explain.BackendKeepAlive, 0.5,
		},
		{
			explain.NoClientKeepAlive, plain,
			func(e *explain.Evidence) { heavier(e, 40); e.Connects = 1 },
			func(e *explain.Evidence) { heavier(e, 40); e.Connects = 0.19 },
			"for each request clients open 1.0 connections, where with well they open none: nearly all of the 40 µs that it costs more",
			explain.ClientKeepAlive, 1,
		},
		{
			explain.DelayedACK, plain,
			func(e *explain.Evidence) {
				e.DelayedShare, e.PerSecond, e.MeanUs, e.P50Us = 0.97, 800, 40_000, 41_000
				app(e).Calls = map[string]float64{"read": 2, "write": 2}
			},
			func(e *explain.Evidence) { e.DelayedShare, e.MeanUs = 0.97, 40_000 }, // the processors are busy: it is a queue
			"97 % of responses take about 40 ms while the processors are 99 % idle, and an answer is 2.0 writes:",
			explain.NoDelay, 0.98,
		},
		{
			explain.ExtraHop, plain,
			func(e *explain.Evidence) { *e = fronted() },
			func(e *explain.Evidence) { *e = fronted(); e.Parts[0].UserUs, e.Parts[0].SysUs = 0.4, 0.5 },
			"its nginx takes a request and hands it on, which costs it 20 µs, with 2.0 reads and 2.0 writes: nearly all of the 20 µs that it costs more",
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
			"the application speaks FastCGI, for which it takes 45 µs more, with 7.0 reads and 4.0 writes where HTTP needs 2.0 and 1.0: nearly all of the 45 µs",
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
			"its nginx writes answers to temporary files before it sends them, 64 KB in 3.0 writes per request: nearly all of the 30 µs",
			explain.Buffers, 1,
		},
		{
			explain.OneCore, plain,
			func(e *explain.Evidence) { e.Demand, e.PerSecond, e.MeanUs = 1, 50_000, 640 },
			func(e *explain.Evidence) { e.Demand, e.PerSecond, e.MeanUs = 1, 95_000, 337 }, // hardly slower
			"it has work for 1.0 of 2 processors at a time, where well has work for 2.0",
			explain.Workers, 1,
		},
		{
			explain.Oversubscribed, plain,
			func(e *explain.Evidence) { heavier(e, 6); e.Demand = 20; app(e).Involuntary = 1.01 },
			func(e *explain.Evidence) { heavier(e, 6); e.Demand = 7.9; app(e).Involuntary = 1.01 },
			"20.0 of its workers at a time are ready to run on 2 processors, where with well it is 2.0; a request has to change threads 1.0 times and not 0.02: about 3.0 µs of the 6.0 µs",
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
			"it writes 90 bytes to a file per request with 1.0 writes more, as an access log does: about 1.5 µs of the 3.0 µs",
			explain.Log, 0.5,
		},
		{
			explain.LongerHead, plain,
			func(e *explain.Evidence) { heavier(e, 0.2); e.Bytes = 190 },
			func(e *explain.Evidence) { heavier(e, 0.2); e.Bytes = 160 },
			"its answers are 37 bytes longer than the 153 bytes of well: about 0.1 µs of the 0.2 µs",
			explain.Header, 0.74,
		},
		{
			explain.SmallWrites, plain,
			func(e *explain.Evidence) { heavier(e, 50); app(e).Calls = map[string]float64{"write": 11} },
			func(e *explain.Evidence) { heavier(e, 50); app(e).Calls = map[string]float64{"write": 3.9} },
			"of an answer the application makes 11.0 writes, where with well it is 1.0: about 25 µs of the 50 µs",
			explain.Writes, 0.5,
		},
		{
			explain.GeneratorBound, plain,
			func(e *explain.Evidence) { e.GeneratorBusy, e.PerSecond = 0.95, 50_000 },
			func(e *explain.Evidence) { e.GeneratorBusy = 0.95 }, // the servers are as busy
			"the generator was 95 % busy while the servers used 0.9 of 2 processors: the rate is the generator's",
			explain.Generator, 1,
		},
		{
			explain.Queueing, plain,
			func(e *explain.Evidence) { e.PerSecond, e.MeanUs = 64_000, 500; app(e).SysUs += 10 },
			func(e *explain.Evidence) { e.PerSecond, e.MeanUs = 64_000, 550; app(e).SysUs += 10 }, // against Little's law
			"of its latency of 500 µs a request is served for 28 µs: the rest is the queue of 32 connections before busy processors",
			explain.Connections, 0.944,
		},
		{
			explain.ConnectFailures, plain,
			func(e *explain.Evidence) {
				e.Errors, e.ErrorTexts = 0.02, []string{"connect: cannot assign requested address"}
			},
			func(e *explain.Evidence) { e.Errors, e.ErrorTexts = 0.02, []string{"read: connection reset by peer"} },
			"ports for outgoing connections ran out: 2 % of all requests failed",
			explain.Backlog, 1,
		},
		{
			explain.ConnectFailures, plain,
			func(e *explain.Evidence) { e.RetriedShare = 0.013 },
			func(e *explain.Evidence) { e.RetriedShare = 0.0009 },
			"1.3 % of clients' connections took a second or more",
			explain.Backlog, 1,
		},
		{
			explain.ConnectFailures, fronted,
			func(e *explain.Evidence) { e.Statuses = map[int]float64{200: 0.9, 502: 0.1} },
			func(e *explain.Evidence) { e.Statuses = map[int]float64{200: 0.9, 404: 0.1} },
			"its nginx answered 10.0 % of requests with status 502 or 503",
			explain.Backlog, 1,
		},
		{
			explain.Allocation, plain,
			func(e *explain.Evidence) { heavier(e, 26); app(e).AllocBytes, app(e).GCShare = 66_736, 0.15 },
			func(e *explain.Evidence) { heavier(e, 26); app(e).AllocBytes, app(e).GCShare = 17_000, 0.06 },
			"the application allocates about 67 KB per request, where that of well allocates 1200 bytes, and its collector takes 15 % of its time: about 13 µs of the 26 µs",
			explain.Memory, 0.49,
		},
		{
			explain.Allocation, plain,
			func(e *explain.Evidence) { heavier(e, 10); app(e).GCShare = 0.25 },
			func(e *explain.Evidence) { heavier(e, 10); app(e).GCShare = 0.06 },
			"the application's collector takes 25 % of its time, where with well it takes 2 %: about 6.6 µs of the 10 µs",
			explain.Memory, 0.664,
		},
		{
			explain.Allocation, plain,
			func(e *explain.Evidence) { heavier(e, 10); app(e).PageFaults = 12 },
			func(e *explain.Evidence) { heavier(e, 10); app(e).PageFaults = 0.49 },
			"the application touches 12.0 new pages of memory per request, where that of well touches none: about 8.4 µs of the 10 µs",
			explain.Memory, 0.84,
		},
	}
}

// closing is a server of whose connections each is for one request.
func closing() explain.Evidence {
	e := plain()
	e.Connects = 1
	app(&e).Calls = map[string]float64{"accept4": 1, "setsockopt": 1, "read": 1, "write": 1, "close": 1}
	return e
}

// lightTests are of rules about what a contender does not do, or less of.
func lightTests() []ruleTest {
	return []ruleTest{
		{
			explain.LessCode, plain,
			func(e *explain.Evidence) { app(e).UserUs = 4 },
			func(e *explain.Evidence) { app(e).UserUs = 7.3 }, // by less than is asked about
			"its own code takes 4.0 µs of user time per request, where that of well takes 9.0 µs: nearly all of the 5.0 µs that it costs less",
			"", 1,
		},
		{
			explain.LessKernel, plain,
			func(e *explain.Evidence) {
				app(e).SysUs, app(e).Calls = 6, map[string]float64{"recvfrom": 1, "sendto": 1}
			},
			func(e *explain.Evidence) { app(e).SysUs, app(e).Calls = 6, map[string]float64{"read": 1.9, "write": 1} },
			"it makes 2.0 system calls per request, where well makes 3.0 (reads 1.0 and not 2.0, of which the second finds nothing), and the kernel takes 6.0 µs for it and not 9.0 µs: nearly all of the 3.0 µs that it costs less",
			"", 1,
		},
		{
			explain.LessKernel, fronted,
			func(e *explain.Evidence) { app(e).SysUs, app(e).Calls = 1, map[string]float64{"read": 1, "write": 1} },
			func(e *explain.Evidence) { app(e).SysUs, app(e).Calls = 6, map[string]float64{"read": 1, "write": 1} },
			"it makes 2.0 system calls per request, where nginx → well makes 3.0 (reads 1.0 and not 2.0), and the kernel", // nobody knows in how many pieces nginx sends
			"", 1,
		},
		{
			explain.LessKernel, uncounted,
			func(e *explain.Evidence) { app(e).SysUs = 6 },
			func(e *explain.Evidence) { app(e).SysUs = 9.1 },
			"the kernel takes 6.0 µs of system time for it per request, where for well it takes 9.0 µs; which system calls it spares was not counted: nearly all of the 3.0 µs",
			"", 1,
		},
		{
			explain.LessSwitching, func() explain.Evidence { e := plain(); app(&e).Voluntary = 1; return e },
			func(e *explain.Evidence) { app(e).SysUs, app(e).Voluntary = 6, 0.01 },
			func(e *explain.Evidence) { app(e).SysUs, app(e).Voluntary = 6, 0.96 },
			"a request has to change threads 0.02 times, where with well it is 1.0: nearly all of the 3.0 µs that it costs less",
			"", 0.99,
		},
		{
			explain.LessMemory, func() explain.Evidence { e := plain(); app(&e).GCShare = 0.25; return e },
			func(e *explain.Evidence) { app(e).UserUs, app(e).GCShare, app(e).AllocBytes = 4.7, 0.015, 200 },
			func(e *explain.Evidence) { app(e).UserUs, app(e).GCShare = 4.7, 0.31 },
			"the collector of well takes 25 % of the application's time, which allocates 1200 bytes per request; its own takes 2 %, for 200 bytes: nearly all of the 4.3 µs that it costs less",
			explain.Memory, 0.999,
		},
		{
			explain.MoreCode, plain,
			func(e *explain.Evidence) { app(e).UserUs, e.PerSecond, e.Interpreter = 109, 8000, "Python" },
			func(e *explain.Evidence) { app(e).UserUs = 10.7 },
			"its own code takes 109 µs of user time per request, where that of well takes 9.0 µs, being interpreted by Python: nearly all of the 100 µs that it costs more",
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
			"each request has a connection of its own, which it takes 7.0 system calls to accept, to set up and to close, where well makes 3.0: about 2.0 µs of the 4.0 µs that it costs more",
			"", 0.5,
		},
		{
			explain.OneCore, plain,
			func(e *explain.Evidence) { e.Demand, e.PerSecond, e.MeanUs, e.Interpreter = 1, 50_000, 640, "Python" },
			func(e *explain.Evidence) { e.Demand, e.Cores = 1, 1 },
			"it has work for 1.0 of 2 processors at a time, where well has work for 2.0; Python runs one thread of a process at a time",
			explain.Workers, 1,
		},
		{ // what the control has and the contender lacks is said of the control
			explain.ExtraHop, fronted,
			func(e *explain.Evidence) { *e = plain() },
			func(e *explain.Evidence) { e.Parts[0].SysUs -= 3 },
			"nginx → well costs more: its nginx takes a request and hands it on, which costs it 20 µs, with 2.0 reads and 2.0 writes: nearly all of the 20 µs that it costs more",
			explain.Hop, 1,
		},
		{
			explain.NoClientKeepAlive, func() explain.Evidence { e := plain(); heavier(&e, 40); e.Connects = 1; return e },
			func(e *explain.Evidence) { *e = plain() },
			func(e *explain.Evidence) { *e = plain(); e.Connects = 0.81 },
			"well costs more: for each request clients open 1.0 connections, where with other they open none: nearly all of the 40 µs that it costs more",
			explain.ClientKeepAlive, 1,
		},
	}
}

func uncounted() explain.Evidence {
	e := plain()
	app(&e).Calls = nil
	return e
}

func TestRules(t *testing.T) {
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
				t.Errorf("says  %s\nwant  %s", f.Sentence, test.sentence)
			}
			if f.Counter.Setting != test.setting || (f.Counter.To == "") != (test.setting == "") || len(f.Numbers) == 0 {
				t.Errorf("counter-experiment %+v, numbers %v", f.Counter, f.Numbers)
			}
			if math.Abs(f.Share-test.share) > 0.02 {
				t.Errorf("explains %.3f of the difference, want %.3f", f.Share, test.share)
			}
			for _, other := range found[1:] {
				t.Errorf("and another: %+v", other)
			}
			test.edge(&edge.Of)
			for _, f := range explain.Explain(edge) {
				if f.Cause == test.cause {
					t.Errorf("on the edge: %s", f.Sentence)
				}
			}
		})
	}
}

func TestEveryRuleIsTested(t *testing.T) {
	tested := map[explain.Cause]bool{explain.Noise: true} // below
	for _, test := range append(ruleTests(), lightTests()...) {
		tested[test.cause] = true
	}
	for _, r := range explain.Rules() {
		if !tested[r.Cause] {
			t.Errorf("no test of the rule for %s", r.Cause)
		}
	}
}

// Of what is the same nothing is said, and where nothing is known, neither.
func TestNothingToExplain(t *testing.T) {
	for _, e := range []explain.Evidence{plain(), fronted(), {}} {
		again := e
		if found := explain.Explain(explain.Case{Of: e, Control: e, Twin: &again}); len(found) > 0 {
			t.Errorf("%s: %+v", e.Title, found)
		}
	}
}

func TestNoise(t *testing.T) {
	c := explain.Case{Of: plain(), Control: plain()}
	twin := plain()
	c.Twin = &twin
	app(&twin).UserUs += 1.8 // a tenth
	heavier(&c.Of, 3.5)
	c.Of.OthersCPUs = 0.7
	found := explain.Explain(c)
	want := "the twin, which is the control again, differs from it by 10 %, and other programs used 0.7 processors: a difference of 19 % is no more than chance"
	if len(found) != 1 || found[0].Cause != explain.Noise || found[0].Sentence != want {
		t.Errorf("%+v", found)
	}
	heavier(&c.Of, 0.2) // more than twice what the twin differs by
	if found := explain.Explain(c); len(found) != 0 {
		t.Errorf("%+v", found)
	}
	app(&twin).UserUs -= 1 // by less than is worth the name
	c.Of = plain()
	if found := explain.Explain(c); len(found) != 0 {
		t.Errorf("%+v", found)
	}
}

// What is lighter by no more than chance is not explained, and the control's twin never.
func TestNothingLighter(t *testing.T) {
	c := explain.Case{Of: plain(), Control: plain()}
	app(&c.Of).UserUs = 6
	if found := explain.Explain(c); len(found) != 1 || found[0].Cause != explain.LessCode || found[0].Counter.ChangesControl {
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
	c.HasDifference = true // block by block it is lighter, whatever the twin does
	if found := explain.Explain(c); len(found) != 1 || found[0].Cause != explain.LessCode {
		t.Errorf("%+v", found)
	}
}

// The cause of most of a difference comes first; what hardly matters beside it is left out.
func TestOrder(t *testing.T) {
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

func TestTimesThatTellACause(t *testing.T) {
	for us, want := range map[float64]bool{30_000: false, 40_000: true, 44_000: true, 60_000: false} {
		if explain.DelayedACKs().Contains(us) != want {
			t.Errorf("%v µs delayed: %v", us, !want)
		}
	}
	if explain.RetriedConnects().Contains(900e3) || !explain.RetriedConnects().Contains(1e6) || !explain.RetriedConnects().Contains(3.1e6) {
		t.Error("connections that were retried")
	}
}

// A web server with nothing behind it hands nothing on.
func TestServerIsNoHop(t *testing.T) {
	alone := fronted()
	alone.Parts = alone.Parts[:1]
	for _, f := range explain.Explain(explain.Case{Of: alone, Control: plain()}) {
		if f.Cause == explain.ExtraHop {
			t.Error(f.Sentence)
		}
	}
}

// A cause that explains next to nothing does not keep those from being looked for that are asked last.
func TestNegligibleCause(t *testing.T) {
	control, of := plain(), plain()
	of.Interpreter = "Ruby"
	heavier(&of, 100)
	app(&of).SysUs -= 100
	app(&of).UserUs += 100
	of.Bytes += 37
	found := explain.Explain(explain.Case{Of: of, Control: control})
	if len(found) == 0 || found[0].Cause != explain.MoreCode || !strings.Contains(found[0].Sentence, "being interpreted by Ruby") {
		t.Errorf("%+v", found)
	}
}
