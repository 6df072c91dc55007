package report

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/testkit/programs"
	"github.com/tarehq/tare/load/hist"
)

// sweepSample returns the sample with two sweeps. With more connections net/http becomes cheaper
// and fasthttp dearer. Trials with different numbers of nginx's workers show nothing, and with 16
// they fail.
func sweepSample() *sample.Run {
	run := fixture()
	add := func(s sample.Sweep, weight func(name string, at, block int) float64) {
		for at, c := range s.Conditions {
			for _, name := range s.Contenders {
				for block := range s.Blocks {
					app := weight(name, at, block)
					r := record(name, block+1, c, 0, app/(1+0.1*float64(block+1)))
					if app == 0 {
						r = sample.Record{Block: block + 1, Condition: c, Contender: name,
							Failure: "it crashed\nwith a reason"}
					}
					run.Records = append(run.Records, r)
				}
			}
		}
		run.Sweeps = append(run.Sweeps, s)
	}
	byConnections := sample.Sweep{Axis: sample.Connections,
		Contenders: []string{"nethttp", "fasthttp"}, Blocks: 2, Measure: time.Second}
	for _, n := range []int{1, connections, 2000} {
		byConnections.Conditions = append(byConnections.Conditions,
			sample.Condition{Cores: 1, Connections: n, Axis: sample.Connections})
	}
	add(byConnections, func(name string, at, block int) float64 {
		if name == "nethttp" {
			return []float64{30, 20, 10}[at] + float64(block)
		}
		return []float64{12, 15, 18}[at] + float64(block)
	})
	workers := sample.Sweep{Axis: sample.Workers,
		Contenders: []string{"nginx-nethttp"},
		Blocks:     2, Measure: time.Second}
	for _, n := range []int{1, 2, 16} {
		workers.Conditions = append(workers.Conditions,
			sample.Condition{Connections: connections, Workers: n, Axis: sample.Workers})
	}
	add(workers, func(_ string, at, block int) float64 {
		return [][]float64{{20, 26}, {22, 24}, {0, 0}}[at][block]
	})
	return run
}

// Tables do not include trials of a sweep, even if their conditions are otherwise equal.
func TestTablesDoNotIncludeSweeps(t *testing.T) {
	with, without := New(sweepSample()), New(fixture())
	if a, b := with.Verdict(), without.Verdict(); a != b {
		t.Errorf("%s\n%s", a, b)
	}
	for i := range without.Tables {
		for j := range without.Tables[i].Rows {
			a, b := &with.Tables[i].Rows[j], &without.Tables[i].Rows[j]
			if a.WeightUs != b.WeightUs || a.Trials != b.Trials || len(a.Failures) != 0 ||
				a.Latency.Count() != b.Latency.Count() {
				t.Errorf("%s: %+v and %+v", a.Name, a.WeightUs, b.WeightUs)
			}
		}
	}
}

func TestSweepsAreInTheText(t *testing.T) {
	var b strings.Builder
	if err := New(sweepSample()).WriteText(&b); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"Connections With the servers on one core, at saturation; 2 blocks of 1s",
		"1 64 2000 net/http µs/request 30.50 20.50 10.50 requests/s 32,796 48,810 95,455\n",
		"nginx's workers With 64 connections and all cores shared, at saturation; 2 blocks of 1s",
		"1 2 16 nginx → net/http µs/request",
		" failed requests/s",
		"nginx → net/http failed with 16: it crashed.",
	} {
		if !strings.Contains(squeeze(b.String()), squeeze(want)) {
			t.Errorf("lacks %q:\n%s", want, b.String())
		}
	}
}

// squeeze replaces white space by single spaces.
func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

func TestSweepsAreInCSV(t *testing.T) {
	rows := parsed(t, New(sweepSample()).writeCSV)
	rows = slices.DeleteFunc(rows, func(r map[string]string) bool { return r["sweep"] == "" })
	if len(rows) != 2*3+3 {
		t.Fatal(len(rows))
	}
	if r := rows[0]; r["sweep"] != "connections" || r["connections"] != "1" || r["contender"] != "nethttp" ||
		r["trials"] != "2" || r["weight_us"] != "30.5" {
		t.Error(r)
	}
	if r := rows[8]; r["workers"] != "16" || r["contender"] != "nginx-nethttp" || r["trials"] != "0" {
		t.Error(r)
	}
}

// Plots have readable axes and names, and tooltips with the figures.
func TestSweepsAreOnThePage(t *testing.T) {
	a := New(sweepSample())
	var b bytes.Buffer
	if err := a.writePage(&b); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"NaN", "Inf", "ZgotmplZ", "%!", "<no value>"} {
		if strings.Contains(b.String(), bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	p := a.sweepPlot(0)
	if len(p.Lines) != 2 || len(p.Lines[0].Spots) != 3 || !p.Named {
		t.Fatalf("%+v", p)
	}
	// Lower costs are lower on the plot.
	for i, spot := range p.Lines[0].Spots {
		if spot.X != p.X[i].At || i > 0 && spot.Y <= p.Lines[0].Spots[i-1].Y {
			t.Errorf("spots %+v", p.Lines[0].Spots)
		}
	}
	if got := p.Lines[0].Spots[0].Title; got != "net/http, 1: 30.5 µs" {
		t.Error(got)
	}
	if failed := a.sweepPlot(1); len(failed.Lines[0].Spots) != 2 || len(failed.X) != 3 {
		t.Errorf("%+v", failed.Lines)
	}
	lookAt(t, b.Bytes(), "Connections</h2>", "nginx's workers</h2>", "net/http, 1: 30.5 µs")
}

// lookAt opens a page in a browser and searches for texts in its document.
func lookAt(t *testing.T, page []byte, wants ...string) {
	t.Helper()
	chromium := programs.Chromium(t)
	dir := t.TempDir()
	file := filepath.Join(dir, PageFile)
	if err := os.WriteFile(file, page, 0o600); err != nil {
		t.Fatal(err)
	}
	dom, _ := programs.Browse(t, chromium, dir, "--dump-dom", "file://"+file)
	for _, want := range wants {
		if !strings.Contains(dom, want) {
			t.Errorf("the page as the browser sees it lacks %q", want)
		}
	}
}

// ratedSample returns the sample with trials at a fixed rate, half of what nginx can serve.
func ratedSample(change func(*sample.Record)) *sample.Run {
	run := fixture()
	c := run.Conditions[0]
	c.Rate = 20_000
	run.Conditions = append(run.Conditions, c)
	run.RateMeasure = time.Second
	for _, e := range run.Entrants {
		for block := range blocks {
			r := record(e.Name, block+1, c, 0, 12)
			r.Load.Seconds, r.Load.Due = perTrial/c.Rate, perTrial
			r.Load.Latency, r.Load.Generator.Lag = hist.New(), hist.New()
			for range 100 {
				r.Load.Latency.Record(200 * time.Microsecond)
				r.Load.Generator.Lag.Record(20 * time.Microsecond)
			}
			if e.Name == "tare" {
				change(&r)
			}
			run.Records = append(run.Records, r)
		}
	}
	return run
}

// The table of a fixed rate names it and has no warnings about saturation. It does not affect the
// verdict.
func TestFixedRateHasItsOwnTable(t *testing.T) {
	a := New(ratedSample(func(*sample.Record) {}))
	if len(a.Tables) != 3 || a.Tables[2].Saturated() || len(a.Tables[2].Why) != 0 ||
		a.Verdict() != New(fixture()).Verdict() {
		t.Fatalf("%d tables: %s", len(a.Tables), a.Verdict())
	}
	for _, row := range a.Tables[2].Rows {
		if len(row.Warnings) > 0 {
			t.Errorf("%s: %q", row.Name, row.Warnings)
		}
	}
	var b strings.Builder
	if err := a.WriteText(&b); err != nil {
		t.Fatal(err)
	}
	const heading = "With 64 connections and the servers on one core, at 20,000 requests/s\n"
	if !strings.Contains(b.String(), heading) {
		t.Errorf("lacks %q:\n%s", heading, b.String())
	}
	// Too few clock ticks separate user from system time.
	if rated := &a.Tables[2]; len(rated.Decompositions) > 0 || len(rated.weightChart().Legend) > 2 {
		t.Errorf("user and system time are separated: %+v", rated.weightChart().Legend)
	}
}

// At a fixed rate there are warnings if it was not reached, if the generator was late, and if the
// rate is too high for a contender.
func TestProblemsAtAFixedRateHaveWarnings(t *testing.T) {
	late := func(h *hist.Histogram, d time.Duration) {
		for range 5 {
			h.Record(d)
		}
	}
	for name, test := range map[string]struct {
		change func(*sample.Record)
		want   string
	}{
		"once not reached": {func(r *sample.Record) {
			if r.Block == 3 {
				r.Load.Due *= 1.25
			}
		}, "the rate was not reached in 1 of 6 trials; in the worst, 80.0 % of the due requests received a response"},
		"almost reached": {func(r *sample.Record) { r.Load.Due *= 1.005 }, ""},
		"late": {func(r *sample.Record) { late(r.Load.Generator.Lag, 3*time.Millisecond) },
			"in 6 of 6 trials the generator was late: "},
		"late and slow": {func(r *sample.Record) {
			late(r.Load.Generator.Lag, 3*time.Millisecond)
			late(r.Load.Latency, 3*time.Millisecond)
		}, "in 6 of 6 trials the generator was late: "},
		"late by half": {func(r *sample.Record) {
			if r.Block%2 == 0 {
				late(r.Load.Generator.Lag, 3*time.Millisecond)
			}
		}, ""},
		"past the knee": {func(r *sample.Record) { late(r.Load.Latency, 3*time.Millisecond) },
			"1 % of requests take at least 3.00 ms, as long as the median at saturation (0.56 ms): the rate is too high for the contender, or it pauses at times"},
	} {
		a := New(ratedSample(test.change))
		warnings := a.Tables[2].Named("tare").Warnings
		if test.want == "" && len(warnings) > 0 || test.want != "" &&
			(len(warnings) != 1 || !strings.HasPrefix(warnings[0], test.want)) {
			t.Errorf("%s: %q, want %q", name, warnings, test.want)
		}
	}
}

// Runs at different fixed rates can be compared.
func TestRunsAtDifferentRatesAreComparable(t *testing.T) {
	a, b := ratedSample(func(*sample.Record) {}), ratedSample(func(*sample.Record) {})
	b.Conditions[2].Rate = 15_000
	for i := range b.Records {
		if r := &b.Records[i]; !r.Saturated() {
			r.Rate = 15_000
		}
	}
	two := Compare(a, b)
	if len(two.Mismatches) != 0 || len(two.Tables) != 3 ||
		strings.Join(two.Changes, "; ") != "fixed rate: 20,000 requests/s in A, 15,000 requests/s in B" {
		t.Errorf("mismatches %q, changes %q, %d tables", two.Mismatches, two.Changes, len(two.Tables))
	}
}

func TestConditionTextNamesAllSettings(t *testing.T) {
	for want, c := range map[string]sample.Condition{
		"1 connection and all cores shared":         {Connections: 1},
		"64 connections and the servers on 2 cores": {Cores: 2, Connections: 64},
		"8 connections and the servers on one core, at 1,200 requests/s": {Cores: 1, Connections: 8,
			Rate: 1200},
		"8 connections, GOMAXPROCS 4, 16 of nginx's workers and all cores shared": {Connections: 8, Procs: 4,
			Workers: 16},
	} {
		if got := c.Text(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
