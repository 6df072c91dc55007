package report

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/page"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/hist"
)

func TestEachProblemHasItsWarning(t *testing.T) {
	every := func(name string, f func(*sample.Record)) func(*sample.Run) {
		return func(run *sample.Run) {
			change(run, name, func(r *sample.Record) {
				if r.Connections == connections {
					f(r)
				}
			})
		}
	}
	for _, test := range []struct {
		want   string
		row    string
		change func(*sample.Run)
	}{
		{"1 of 6 trials failed: it fell over", "tare", every("tare", func(r *sample.Record) {
			if r.Block == 2 {
				r.Failure, r.Load = "it fell over\nand so on", nil
			}
		})},
		{"the twin is a copy of the control, but its interval excludes 1: do not trust differences below 10 %", "twin",
			func(r *sample.Run) { scale(r, "twin", func(int) float64 { return 1.1 }) }},
		{"the load generator was 95 % busy", "ceiling",
			every("ceiling", func(r *sample.Record) { r.Load.Generator.Busy = 0.95 })},
		{"12 errors beside 600000 responses; the first error: read: nonsense", "tare",
			every("tare", func(r *sample.Record) { r.Load.Errors = load.Errors{Read: 2, First: "read: nonsense"} })},
		{"clients had to open 30 connections again", "tare",
			every("tare", func(r *sample.Record) { r.Load.Connects = 5 })},
		{"other programs used 0.25 of a CPU, so", "tare", every("tare",
			func(r *sample.Record) { r.Others = time.Duration(r.Load.Seconds * 5e8) })},
		{"only 3 of 6 blocks were measured, which are too few for an interval", "tare", every("tare", func(r *sample.Record) {
			if r.Block > 3 {
				r.Contender = "nobody"
			}
		})},
	} {
		run := fixture()
		test.change(run)
		var all []string
		for _, row := range New(run).Tables[0].Rows {
			for _, w := range row.Warnings {
				all = append(all, row.Name+": "+w)
			}
		}
		found := false
		for _, w := range all {
			if strings.HasPrefix(w, test.row+": "+test.want) {
				found = true
			} else if !strings.Contains(w, "too few") {
				t.Errorf("%s: additional warning: %s", test.want, w)
			}
		}
		if !found {
			t.Errorf("missing warning: %s: %s; got: %v", test.row, test.want, all)
		}
	}
}

// If a server keeps no connections, clients may open new ones without a warning.
func TestClosedConnectionsCauseNoWarning(t *testing.T) {
	run := fixture()
	e := run.Entrant("tare")
	response := *e.Response
	response.KeepAlive = false
	e.Response = &response
	change(run, "tare", func(r *sample.Record) { r.Load.Connects = r.Load.Requests })
	testkit.Equal(t, len(New(run).Tables[0].Named("tare").Warnings), 0, "warnings")
}

// A warning of several rows is shown once.
func TestEqualWarningsAreGrouped(t *testing.T) {
	run := fixture()
	for _, name := range []string{"tare", "fasthttp"} {
		change(run, name, func(r *sample.Record) { r.Load.Generator.Busy = 0.97 })
	}
	warnings := New(run).Tables[0].warnings()
	if len(warnings) != 1 || !strings.HasPrefix(warnings[0], "fasthttp and tare: the load generator was 97 % busy") {
		t.Errorf("%+v", warnings)
	}
}

// drawnRows returns numbers of the elements in each row of a chart, by attribute.
func drawnRows(c *page.Drawing) (rows []map[string][]float64) {
	element, attribute := regexp.MustCompile(`<(\w+)([^>]*)>`), regexp.MustCompile(` (x|x1|x2|cx|width)="([^"]*)"`)
	for _, group := range strings.Split(string(c.HTML()), "\n<g class=")[1:] {
		if strings.HasPrefix(group, `"tick"`) {
			continue
		}
		row := make(map[string][]float64)
		for _, e := range element.FindAllStringSubmatch(group, -1) {
			for _, m := range attribute.FindAllStringSubmatch(e[2], -1) {
				key := m[1]
				if key == "x" {
					key = e[1] + " x"
				}
				v, _ := strconv.ParseFloat(m[2], 64)
				row[key] = append(row[key], v)
			}
		}
		rows = append(rows, row)
	}
	return rows
}

// squeeze replaces white space by single spaces.
func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

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
	if len(a.Tables) != 3 || a.Tables[2].Saturated() ||
		a.Verdict() != New(fixture()).Verdict() {
		t.Fatalf("%d tables: %s", len(a.Tables), a.Verdict())
	}
	for _, row := range a.Tables[2].Rows {
		testkit.Equal(t, strings.Join(row.Warnings, "; "), "", row.Name)
	}
	b := a.Text()
	const heading = "With 64 connections and the servers on one core, at 20,000 requests/s\n"
	testkit.Contains(t, b, heading)
	// Too few clock ticks separate user from system time.
	if rated := &a.Tables[2]; len(rated.Decompositions) > 0 || len(rated.weightChart().Legend) > 2 {
		t.Errorf("user and system time are separated: %+v", rated.weightChart().Legend)
	}
}

// At a fixed rate there are warnings if it was not reached, and if the generator was late.
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
		"late by half": {func(r *sample.Record) {
			if r.Block%2 == 0 {
				late(r.Load.Generator.Lag, 3*time.Millisecond)
			}
		}, ""},
	} {
		a := New(ratedSample(test.change))
		warnings := a.Tables[2].Named("tare").Warnings
		if test.want == "" && len(warnings) > 0 || test.want != "" &&
			(len(warnings) != 1 || !strings.HasPrefix(warnings[0], test.want)) {
			t.Errorf("%s: %q, want %q", name, warnings, test.want)
		}
	}
}

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
		"8 connections, GOMAXPROCS 4 and all cores shared": {Connections: 8, Procs: 4},
	} {
		testkit.Equal(t, c.Text(), want)
	}
}
