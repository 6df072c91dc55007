package report

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/equal"
	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/hist"
)

var update = flag.Bool("update", false, "write the golden files anew")

const (
	blocks      = 6
	perTrial    = 100_000 // requests
	connections = 64
)

// fixture returns a run of known figures. Weights are equal in all blocks, except for a drift that
// all contenders share, which ratios must not show.
func fixture() *sample.Run {
	run := &sample.Run{
		Tool: "v1 go1.26", Experiment: "front", Flags: []string{"front", "--blocks", "6"}, Title: "nginx and Go",
		Question: "What does nginx cost?", Source: "a write-up",
		Started: time.Date(2026, 11, 21, 1, 2, 3, 0, time.UTC), Seconds: 240, Seed: 7, Blocks: blocks,
		Warmup: 300 * time.Millisecond, Measure: 2 * time.Second, Placement: "servers on [0], generator on [1]",
		Conditions: []sample.Condition{{Cores: 1, Connections: connections}, {Cores: 1, Connections: 1000}},
		Environment: sample.Environment{CPU: "A processor", Cores: 2, Memory: 24e9, Kernel: "Linux 6", System: "Debian",
			Nofile: 20000, Sysctls: map[string]string{"net.core.somaxconn": "4096"}},
	}
	response := &equal.Response{Status: 200, Body: []byte("Hello World\n"), Bytes: 153, KeepAlive: true,
		Header: map[string][]string{"Server": {"gophr"}, "Date": {"x"}}}
	for _, e := range []struct {
		name, title string
		kind        sample.Kind
		nginx, app  float64
	}{
		{"nethttp", "net/http", sample.Control, 0, 10},
		{"twin", "net/http (twin)", sample.Twin, 0, 10},
		{"nginx-nethttp", "nginx → net/http", sample.Way, 12, 11},
		{"fasthttp", "fasthttp", sample.Rival, 0, 6},
		{"tare", "tare", sample.Rival, 0, 6.5},
		{"ceiling", "ceiling", sample.Ceiling, 0, 5},
	} {
		run.Entrants = append(run.Entrants, sample.Entrant{Name: e.name, Title: e.title, About: "about", Kind: e.kind,
			Versions: []string{"go1.26.8"}, Response: response})
		for _, c := range run.Conditions {
			for block := range blocks {
				run.Records = append(run.Records, record(e.name, block+1, c, e.nginx, e.app))
			}
		}
	}
	start(run)
	return run
}

// start sets the times of all trials: block after block, a trial every ten seconds.
func start(run *sample.Run) {
	const each = 10 * time.Second
	inBlock := make(map[int]int)
	perBlock := len(run.Records) / max(1, run.Blocks)
	for i := range run.Records {
		r := &run.Records[i]
		r.Start = run.Started.Add(time.Duration((r.Block-1)*perBlock+inBlock[r.Block]) * each)
		inBlock[r.Block]++
	}
}

// record returns a trial of a contender whose processes use these µs of CPU time per request.
func record(name string, block int, c sample.Condition, nginx, app float64) sample.Record {
	drift := 1 + 0.1*float64(block)
	total := (nginx + app) * drift
	rate := 1e6 / total
	seconds := perTrial / rate
	l := hist.New()
	l.RecordN(time.Duration(float64(c.Connections)/rate*float64(time.Second)), 100)
	cost := func(us float64) proc.Cost {
		cpu := time.Duration(us * drift * perTrial * 1000)
		return proc.Cost{Name: "p", User: cpu / 4, Sys: cpu - cpu/4, Voluntary: perTrial / 10,
			Involuntary: perTrial / 50, RSS: 10e6}
	}
	r := sample.Record{
		Block: block, Condition: c, Contender: name,
		Load: &load.Result{Connections: c.Connections, Seconds: seconds, Requests: perTrial, Bytes: 153 * perTrial,
			Statuses: map[int]uint64{200: perTrial}, Latency: l,
			Generator: load.Generator{Busy: 0.5}},
		Costs: map[string][]proc.Cost{contender.RoleApplication: {cost(app)}},
	}
	if nginx > 0 {
		r.Costs[contender.RoleNginx] = []proc.Cost{cost(nginx / 2), cost(nginx / 2)}
	}
	return r
}

func TestRatiosDoNotShowCommonDrift(t *testing.T) {
	a := New(fixture())
	if len(a.Tables) != 2 || len(a.Tables[0].Rows) != 6 {
		t.Fatalf("%d tables", len(a.Tables))
	}
	for name, want := range map[string]struct {
		ratio   float64
		finding string
	}{
		"twin": {1, "no difference"}, "nginx-nethttp": {2.3, "more"}, "fasthttp": {0.6, "less"},
		"tare": {0.65, "less"}, "ceiling": {0.5, "less"},
	} {
		row := a.Tables[0].Named(name)
		if d := row.Ratio.Mid/want.ratio - 1; d > 1e-6 || d < -1e-6 || row.Ratio.Finding().String() != want.finding {
			t.Errorf("%s: %v, %v", name, row.Ratio, row.Ratio.Finding())
		}
		// The common drift widens the weight's interval, not the ratio's.
		if row.Ratio.Hi-row.Ratio.Lo > 1e-6 || row.WeightUs.Hi/row.WeightUs.Lo < 1.4 {
			t.Errorf("%s: ratio %v of weight %v", name, row.Ratio, row.WeightUs)
		}
		testkit.Equal(t, strings.Join(row.Warnings, "; "), "", name)
	}
	row := a.Tables[0].Named("nginx-nethttp")
	// Two processes of nginx, and one of the application.
	if row.Voluntary < 0.2999 || row.Voluntary > 0.3001 || row.Involuntary < 0.0599 || row.Involuntary > 0.0601 ||
		row.RSS != 30e6 || row.Busy != 0.5 {
		t.Errorf("%v and %v switches, %v bytes, generator busy %v", row.Voluntary, row.Involuntary, row.RSS, row.Busy)
	}
	parts := row.Parts
	if len(parts) != 2 || parts[0].Role != "nginx" || parts[1].Role != "application" ||
		parts[0].Us() < parts[1].Us() || parts[0].SysUs < 2*parts[0].UserUs {
		t.Errorf("parts %+v", parts)
	}
}

func TestVerdictConcludes(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*sample.Run)
		want   string
	}{
		"all clear": {func(*sample.Run) {},
			"A request costs 13.5 µs of CPU time with net/http. nginx → net/http needs 2.30 times as much CPU time. fasthttp needs 0.60 times as much CPU time and tare 0.65 times."},
		"no difference": {func(r *sample.Run) { scale(r, "fasthttp", func(int) float64 { return 10 / 6.0 }) },
			"A request costs 13.5 µs of CPU time with net/http. nginx → net/http needs 2.30 times as much CPU time. tare needs 0.65 times as much CPU time and fasthttp 1.00 times (no difference)."},
		"unclear": {
			func(r *sample.Run) { scale(r, "tare", func(block int) float64 { return 1.2 + 0.15*float64(block) }) },
			"A request costs 13.5 µs of CPU time with net/http. nginx → net/http needs 2.30 times as much CPU time. fasthttp needs 0.60 times as much CPU time and tare 1.11 times (unclear)."},
		"conclusion": {func(r *sample.Run) { r.Conclusion = "nginx costs {nginx-nethttp, absent} the CPU time ({nethttp})" },
			"nginx costs 2.3 times the CPU time (13.5 µs). fasthttp needs 0.60 times as much CPU time and tare 0.65 times."},
		"conclusion of several": {func(r *sample.Run) { r.Conclusion = "others cost {fasthttp,tare}" },
			"others cost 0.60 to 0.65 times. nginx → net/http needs 2.30 times as much CPU time."},
		"unclear conclusion": {func(r *sample.Run) {
			r.Conclusion = "nginx costs {nginx-nethttp}, and tare {tare}"
			scale(r, "tare", func(block int) float64 { return 1.2 + 0.15*float64(block) })
		}, "nginx costs 2.3 times, and tare 1.11 times (unclear). fasthttp needs 0.60 times as much CPU time."},
		"no conclusion": {func(r *sample.Run) { r.Conclusion = "nginx costs {absent}" },
			"A request costs 13.5 µs of CPU time with net/http. nginx → net/http needs 2.30 times as much CPU time. fasthttp needs 0.60 times as much CPU time and tare 0.65 times."},
		"nothing": {func(r *sample.Run) { r.Records = nil }, "Nothing was measured."},
		"control left out": {func(r *sample.Run) { r.Records, r.Entrants[0].Absent = nil, "it crashed" },
			"The control was not measured, so nothing can be compared with it."},
		"no control": {func(r *sample.Run) { drop(r, "nethttp") },
			"The control was not measured, so nothing can be compared with it."},
	} {
		t.Run(name, func(t *testing.T) {
			run := fixture()
			test.change(run)
			testkit.Equal(t, New(run).Verdict(), test.want)
		})
	}
}

// All outputs have the bounds of the rows.
func TestAllOutputsHaveTheSameIntervals(t *testing.T) {
	run := fixture()
	scale(run, "tare", func(block int) float64 { return 1 + 0.1*float64(block) })
	a := New(run)
	row := a.Tables[0].Named("tare")
	near := func(got, want float64) bool { return got > 0.999*want && got < 1.001*want }
	// Weights drift by 1.1 to 1.6, and tare's by that much again.
	if i := row.WeightUs; !near(i.Lo, 6.5*1.1*1.1) || !near(i.Mid, 6.5*(1.3*1.3+1.4*1.4)/2) ||
		!near(i.Hi, 6.5*1.6*1.6) {
		t.Errorf("weight %v", i)
	}
	if i := row.Ratio; !near(i.Lo, 0.7514) || !near(i.Mid, 0.8704) || !near(i.Hi, 1.0083) {
		t.Errorf("ratio %v", i)
	}
	if i := row.RateRatio; !near(i.Lo, 1/0.65) || !near(i.Hi, 1/0.65) { // the rate did not change
		t.Errorf("ratio of rates %v", i)
	}
	drawn := drawnRows(a.Tables[0].weightChart())[4]
	bar := drawn["width"][0] + drawn["width"][1]
	lo, hi := (drawn["x1"][0]-chartLeft)/bar, (drawn["x2"][0]-chartLeft)/bar
	if !near(lo, row.Ratio.Lo/row.Ratio.Mid) || !near(hi, row.Ratio.Hi/row.Ratio.Mid) {
		t.Errorf("whisker from %v to %v of the bar; want %v", lo, hi, row.Ratio)
	}
	for name, shown := range map[string]struct{ in, want string }{
		"CSV":  {a.csv(), ",tare,rival,6,11.8625,7.865,16.64,0.870408,0.751403,1.00826,unclear,"},
		"page": {a.page(), "<td>11.86</td><td>2.97</td><td>8.90</td><td>0.87</td><td>0.75–1.01</td>"},
		"text": {a.Text(), "0.87      0.75–1.01        unclear"},
	} {
		if !strings.Contains(shown.in, shown.want) {
			t.Errorf("the %s lacks %s:\n%s", name, shown.want,
				regexp.MustCompile(`(?m)^.*\btare\b.{0,200}`).FindAllString(shown.in, -1))
		}
	}
}

// change changes the trials of a contender.
func change(run *sample.Run, name string, f func(*sample.Record)) {
	for i := range run.Records {
		if r := &run.Records[i]; r.Contender == name {
			f(r)
		}
	}
}

// scale multiplies what a contender's processes cost.
func scale(run *sample.Run, name string, by func(block int) float64) {
	change(run, name, func(r *sample.Record) {
		for _, costs := range r.Costs {
			for j := range costs {
				costs[j].User = time.Duration(float64(costs[j].User) * by(r.Block))
				costs[j].Sys = time.Duration(float64(costs[j].Sys) * by(r.Block))
			}
		}
	})
}

func drop(run *sample.Run, name string) {
	change(run, name, func(r *sample.Record) { r.Failure, r.Load = "gone", nil })
}

func TestTextEqualsGoldenFile(t *testing.T) {
	run := fixture()
	run.Entrants[3].Absent = "fasthttp is missing: no network"
	run.Entrants[2].Declared = []sample.DeclaredDifference{{Difference: equal.Difference{What: "field Server",
		Want: `"gophr"`, Got: `"nginx"`}, Why: "its own name"}}
	run.Warnings = []string{"interrupted in block 6 of 6"}
	b := New(run).Text()
	golden := filepath.Join("testdata", "report.txt")
	if *update {
		testkit.Must(t, os.WriteFile(golden, []byte(b), 0o644))
	}
	want := testkit.Value(os.ReadFile(golden))(t)
	if b != string(want) {
		t.Errorf("differs from %s (go test -update writes it anew):\n%s", golden, b)
	}
}

func TestRunWithProblemsIsIncomplete(t *testing.T) {
	if !fixture().Complete() {
		t.Error("a run without problems is incomplete")
	}
	for name, change := range map[string]func(*sample.Run){
		"warning": func(r *sample.Run) { r.Warnings = []string{"x"} },
		"absent":  func(r *sample.Run) { r.Entrants[1].Absent = "x" },
		"failure": func(r *sample.Run) { r.Records[3].Failure = "x" },
	} {
		r := fixture()
		change(r)
		if r.Complete() {
			t.Errorf("%s: the run is complete", name)
		}
	}
}

// The page needs no external resources: it opens offline, in light and dark color schemes.
func TestPageNeedsNoExternalResources(t *testing.T) {
	t.Parallel()
	page := New(fixture()).page()
	if New(fixture()).page() != page {
		t.Error("the page differs the second time")
	}
	for _, outside := range []string{"src=", "<link", "url(", "@import", "<script"} {
		testkit.Lacks(t, page, outside, "the page")
	}
	for _, role := range []string{contender.RoleApplication, contender.RoleNginx, contender.RoleFront} {
		for _, part := range []string{"-user", "-sys"} {
			testkit.Contains(t, page, "\n."+role+part+" { fill: var(--", "the color of bars")
		}
	}
	run := fixture()
	drop(run, "nethttp")
	run.Entrants[0].Absent = "it crashed\n  with a reason"
	lone := New(run).page() // of a run whose control failed
	testkit.Contains(t, lone, "<li>LEFT OUT: net/http: it crashed\n  with a reason</li>")
	page += lone
	for _, bad := range []string{"NaN", "Inf", "ZgotmplZ", "%!", "<no value>"} {
		testkit.Lacks(t, page, bad, "the page")
	}
	chromium := programs.Chromium(t)
	dir := t.TempDir()
	file := filepath.Join(dir, PageFile)
	testkit.Must(t, os.WriteFile(file, []byte(page), 0o600))
	dom, _ := programs.Browse(t, chromium, dir, "--dump-dom", "file://"+file)
	for _, want := range []string{
		"A request costs 13.5 µs of CPU time with net/http", "What this means for 1,000 requests/s</h2>",
		"Latency",
		"Contenders</h2>",
		"Responses compared", "0.36", "How this was measured",
		"net.core.somaxconn", "tare weigh front --blocks 6 --seed 7",
	} {
		testkit.Contains(t, dom, want, "the page as the browser sees it")
	}
	if n := len(regexp.MustCompile(`class="application-user"[^>]*width="[1-9]`).FindAllString(dom, -1)); n < 2*6 {
		t.Errorf("%d bars are drawn, want 12", n)
	}
	for _, scheme := range []string{"light", "dark"} {
		shot := filepath.Join(dir, scheme+".png")
		programs.Screenshot(t, chromium, dir, file, shot, scheme == "dark", "1200,3000")
		if info, err := os.Stat(shot); err != nil || info.Size() < 50_000 {
			t.Errorf("%s: %v, %v", scheme, info, err)
		}
	}
}

func TestLabelsKeepTheirEnds(t *testing.T) {
	for _, test := range []struct {
		label string
		n     int
		want  string
	}{{"tare front", 10, "tare front"}, {"tare front → FastCGI (unix)", 20, "tare front…GI (unix)"}} {
		if got := cutMiddle(test.label, test.n); got != test.want || utf8.RuneCountInString(got) > test.n {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

// The first screen has tables of at most 80 columns, and problems as they are.
func TestFirstScreenFits(t *testing.T) {
	const logged = "no response after 10s: the front responds, but the application behind it does not; nginx printed: connect() failed"
	refused := fixture()
	refused.Entrants = append(refused.Entrants, sample.Entrant{Name: "refused", Title: "Refused",
		Kind: sample.Way, Absent: logged + "\n    its output"})
	refused.Entrants[4].Title = strings.Repeat("long ", 10)
	nothing := fixture()
	nothing.Records = nil
	builds := fixture()
	builds.Entrants[4].Kind = sample.Build
	for name, test := range map[string]struct {
		run  *sample.Run
		want []string
	}{
		"usual":   {fixture(), []string{"With 64 connections and the servers on one core:", "  tare ", "0.65"}},
		"refused": {refused, []string{"LEFT OUT: Refused: " + logged + "\n    its output\n", "\n  long long long…ng long long "}},
		"nothing": {nothing, []string{"Nothing was measured."}},
		"builds":  {builds, []string{"CPU time per request      -35.0 % (-35.0 % to -35.0 %)"}},
	} {
		text := New(test.run).Brief()
		for line := range strings.Lines(text) {
			if !strings.Contains(line, logged) {
				testkit.Between(t, utf8.RuneCountInString(line)-1, 0, screenWidth, name, "columns of", line)
			}
		}
		if strings.Contains(text, "(twin)") || strings.Contains(text, "ceiling  ") {
			t.Errorf("%s: the twin or the ceiling:\n%s", name, text)
		}
		for _, want := range test.want {
			testkit.Contains(t, text, want, name)
		}
	}
}

// The table of a run that has not ended has intervals as soon as there are enough blocks.
func TestEarlyTableHasIntervals(t *testing.T) {
	for blocks, known := range map[int]bool{4: false, 5: true} {
		run := slicesRun(1.5, 0, never)
		run.Blocks = blocks
		run.Records = slices.DeleteFunc(run.Records, func(r sample.Record) bool { return r.Block > blocks })
		early := New(run).Early()
		const interval = "–1.5"
		if !strings.HasPrefix(early, fmt.Sprintf("After %d blocks, with 8 connections", blocks)) ||
			strings.Contains(early, interval) != known {
			t.Errorf("%d blocks:\n%s", blocks, early)
		}
	}
}
