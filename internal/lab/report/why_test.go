package report_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/explain"
	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/internal/lab/report"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/hist"
)

// closingRun returns a run of a control, its twin and a contender whose clients open a connection
// for each request. The kernel does not count the twin.
func closingRun() *sample.Run {
	c := sample.Condition{Cores: 1, Connections: 8}
	run := &sample.Run{
		Blocks: 1, Conditions: []sample.Condition{c},
		Entrants: []sample.Entrant{
			{Name: "a", Title: "Plain", Kind: sample.Control, Protocol: "http"},
			{Name: "t", Title: "Plain (twin)", Kind: sample.Twin, Protocol: "http"},
			{Name: "b", Title: "Closing", Kind: sample.Way, Protocol: "http"},
		},
	}
	for name, cpu := range map[string]time.Duration{"a": 18 * time.Microsecond, "t": 18 * time.Microsecond,
		"b": 58 * time.Microsecond} {
		const n = 1000
		r := sample.Record{
			Block: 1, Condition: c, Contender: name,
			Load: &load.Result{Requests: n, Seconds: float64(n) * cpu.Seconds(), Latency: hist.New(),
				Connect: hist.New(), Statuses: map[int]uint64{200: n}},
			Costs: map[string][]proc.Cost{"application": {{User: n * cpu / 2, Sys: n * cpu / 2, FileBytes: 5 * n,
				Threads: 4, Waited: n * cpu}}},
		}
		r.Load.Latency.RecordN(8*cpu, n)
		if name == "b" {
			r.Load.Connects = n
		}
		run.Records = append(run.Records, r)
		if name == "t" {
			continue
		}
		counted := r
		counted.Block = 0
		counted.Attribution = &sample.Attribution{
			Calls:     map[string]map[string]uint64{"application": {"read": 2 * n, "write": n}},
			Collector: &sample.Collector{BytesPerSecond: 2000 / cpu.Seconds(), CPUPerSecond: 0.25},
		}
		run.Records = append(run.Records, counted)
	}
	return run
}

func TestEvidenceOfRecords(t *testing.T) {
	run := closingRun()
	c := run.Conditions[0]
	e := analyze.Evidence(run, "b", c)
	app := e.Parts[0]
	if e.Title != "Closing" || e.Cores != 1 || e.Connects != 1 || len(e.Parts) != 1 {
		t.Errorf("%+v", e)
	}
	near := func(what string, got, want float64) {
		if got < 0.99*want || got > 1.01*want {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	near("weight", e.WeightUs(), 58)
	near("demand", e.Demand, 2)
	near("mean latency", e.MeanUs, 8*58)
	near("bytes written to files", app.FileBytes, 5)
	near("writes", app.Calls["write"], 1)
	near("bytes allocated", app.AllocBytes, 2000)
	near("collector's share", app.GCShare, 0.25)
	if twin := analyze.Evidence(run, "t", c); twin.Parts[0].Calls["read"] != 2 {
		t.Errorf("the counts of the twin differ from the control's: %v", twin.Parts[0].Calls)
	}
	if e := analyze.Evidence(run, "nobody", c); len(e.Parts) != 0 || e.PerSecond != 0 {
		t.Errorf("unknown contender: %+v", e)
	}
}

func TestCausesAndOutcomesAreInAllOutputs(t *testing.T) {
	const sentence = "Clients open 1.0 connections per request (Plain: none): nearly all of the 40 µs difference"
	run := closingRun()
	for _, test := range []struct {
		tested *sample.CounterExperiment
		want   string
	}{
		{nil, "."},
		{&sample.CounterExperiment{Of: []float64{60}, Toggled: []float64{20}, Control: []float64{18}},
			"; with x the difference disappears, from 42.0 µs to 2.00 µs."},
		{&sample.CounterExperiment{Of: []float64{60}, Toggled: []float64{17}, Control: []float64{18}},
			"; with x the difference disappears, from 42.0 µs to −1.00 µs."},
		{&sample.CounterExperiment{Of: []float64{60}, Toggled: []float64{40}, Control: []float64{20}},
			"; with x the difference shrinks from 40.0 µs to 20.0 µs."},
		{&sample.CounterExperiment{Of: []float64{60}, Toggled: []float64{59}, Control: []float64{20}},
			"; with x the difference stays (40.0 µs, then 39.0 µs), so the cause is another."},
		{&sample.CounterExperiment{Explains: string(explain.Rate), Of: []float64{500}, Toggled: []float64{990},
			Control: []float64{1000}}, "; with x the difference disappears, from -500 requests/s to -10 requests/s."},
		{&sample.CounterExperiment{Failure: "it died"}, "; the counter-experiment failed: it died."},
	} {
		run.CounterExperiments = nil
		if test.tested != nil {
			test.tested.Contender, test.tested.Condition, test.tested.Cause, test.tested.To = "b", run.Conditions[0],
				string(explain.NoClientKeepAlive), "x"
			run.CounterExperiments = []sample.CounterExperiment{*test.tested}
		}
		a := report.New(run)
		table := &a.Tables[0]
		if len(table.Why) != 1 || table.Why[0].Name != "b" {
			t.Fatalf("%+v", table.Why)
		}
		if got := a.Sentences(table, &table.Why[0]); len(got) != 1 || got[0] != sentence+test.want {
			t.Errorf("got  %q\nwant %q", got, sentence+test.want)
		}
		var text bytes.Buffer
		if err := a.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(strings.Fields(text.String()), " "); !strings.Contains(got,
			"Causes of the differences from Plain Closing: "+sentence+test.want) {
			t.Errorf("the text lacks %q", test.want)
		}
		dir := t.TempDir()
		if err := a.WriteFiles(dir); err != nil {
			t.Fatal(err)
		}
		page, err := os.ReadFile(filepath.Join(dir, report.PageFile))
		if err != nil || !strings.Contains(string(page), "<dt>Closing</dt><dd>"+sentence) {
			t.Errorf("the page lacks the cause (%v)", err)
		}
	}
}

// The explanation of a lighter contender names the control's extra work, and causes without a
// setting.
func TestLighterContenderIsExplained(t *testing.T) {
	run := closingRun()
	run.Entrants[0].Name, run.Entrants[2].Name = "b", "a" // the control is the heavier one now
	run.Entrants[0].Versions, run.Entrants[2].Versions = []string{"Python 3.1", "flup 1"}, []string{"go1.26"}
	run.Entrants[0].Runtime, run.Entrants[2].Runtime = "Python", "Go"
	run.Entrants = append(run.Entrants[:1:1], run.Entrants[2])
	a := report.New(run)
	table := &a.Tables[0]
	if len(table.Why) != 1 || table.Why[0].Name != "a" {
		t.Fatalf("%+v", table.Why)
	}
	want := []string{"Plain costs more: clients open 1.0 connections per request (Closing: none): nearly all of the 40 µs difference."}
	if got := a.Sentences(table, &table.Why[0]); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if e := analyze.Evidence(run, "b", run.Conditions[0]); e.Interpreter != "Python" {
		t.Errorf("interpreter %q", e.Interpreter)
	}
	run.CounterExperiments = []sample.CounterExperiment{{
		Contender: "a", Condition: run.Conditions[0], Cause: string(explain.NoClientKeepAlive), To: "x",
		ChangesControl: true, Of: []float64{18}, Toggled: []float64{19}, Control: []float64{58},
	}}
	if got := report.New(run).Sentences(table, &table.Why[0]); !strings.HasSuffix(got[0],
		"; with x the difference disappears, from −40.0 µs to −1.00 µs.") {
		t.Errorf("got %q", got)
	}
}
