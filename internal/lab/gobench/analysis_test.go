package gobench

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/stat"
)

func TestParseReadsOneResult(t *testing.T) {
	const head = "goos: linux\ngoarch: amd64\npkg: example.org/m\ncpu: some\n"
	for name, test := range map[string]struct {
		output     string
		want       string
		iterations int
		fault      string
	}{
		"one thread": {head + "BenchmarkA \t  123\t  4567 ns/op\t 8 B/op\t 9 allocs/op\nPASS\n",
			"map[B/op:8 allocs/op:9 ns/op:4567]", 123, ""},
		"several threads": {head + "BenchmarkA-4 \t  2000000\t  0.5 ns/op\t 0 B/op\t 0 allocs/op\nPASS\n", "map[B/op:0 allocs/op:0 ns/op:0.5]", 2000000, ""},
		"a unit more": {head + "BenchmarkA 1 10 ns/op 3 MB/s 1048576 B/op 1 allocs/op\nPASS\n",
			"map[B/op:1.048576e+06 MB/s:3 allocs/op:1 ns/op:10]", 1, ""},
		"other output": {"noise\n" + head + "more: noise\nBenchmarkA 1 10 ns/op 0 B/op 0 allocs/op\nPASS\n",
			"map[B/op:0 allocs/op:0 ns/op:10]", 1, ""},
		"nothing":      {"", "", 0, "no result in its output"},
		"no benchmark": {head + "PASS\n", "", 0, "no result in its output:\ngoos: linux"},
		"another": {head + "BenchmarkB 1 10 ns/op 0 B/op 0 allocs/op\n", "", 0,
			"want one result of A, got one of B"},
		"a part": {head + "BenchmarkA/b 1 10 ns/op 0 B/op 0 allocs/op\n", "", 0,
			"want one result of A, got one of A/b"},
		"two":         {head + "BenchmarkA 1 10 ns/op 0 B/op 0 allocs/op\nBenchmarkA 1 10 ns/op 0 B/op 0 allocs/op\n", "", 0, "want one result of A"},
		"own units":   {head + "BenchmarkA 1 20 B/conn 7 p99-µs\nPASS\n", "map[B/conn:20 p99-µs:7]", 1, ""},
		"half a line": {head + "BenchmarkA 1 10\nPASS\n", "", 0, "no result in its output"},
	} {
		got, iterations, err := parse([]byte(test.output), "A")
		switch {
		case test.fault != "":
			if err == nil || !strings.Contains(err.Error(), test.fault) {
				t.Errorf("%s: error %v, want %s", name, err, test.fault)
			}
		case err != nil || fmt.Sprint(got) != test.want || iterations != test.iterations:
			t.Errorf("%s: got %v of %d, error %v, want %s of %d", name, got, iterations, err, test.want,
				test.iterations)
		}
	}
}

// canned returns a run of six blocks on a machine that gets slower and slower. In row A, fast takes
// half of the control's time, in B twice as much, and in C about the same.
func canned() *sample.Run {
	published := func(name string, procs int, ns, bytes, allocs float64) sample.PublishedBenchmark {
		return sample.PublishedBenchmark{Name: name, Procs: procs, Ns: ns, Bytes: bytes, Allocs: allocs}
	}
	r := &sample.Run{
		Title: "canned", Blocks: 6,
		Entrants: []sample.Entrant{{Name: "slow", Title: "Slow", Kind: sample.Control, Prefix: "Slow"},
			{Name: "fast", Title: "Fast", Lacking: []string{"D"}}},
		Benchmarks: &sample.Benchmarks{
			Procs: []int{1}, Why: "Time has passed.",
			Groups: []sample.Group{{Title: "All", Rows: []string{"A", "B", "C", "D"}}},
			Published: []sample.PublishedBenchmark{
				published("SlowA", 1, 1000, 9, 3), published("A", 1, 400, 0, 0),
				published("SlowB", 1, 1000, 9, 3), published("B", 1, 500, 0, 0),
				published("SlowC", 1, 1000, 9, 3), published("C", 1, 900, 0, 0),
				published("SlowA", 4, 1, 1, 1), published("A", 4, 1, 1, 1),
			},
		},
	}
	for block := 1; block <= 6; block++ {
		drift := float64(block * block)
		add := func(engine, row string, ns, allocs float64) {
			r.Records = append(r.Records, sample.Record{
				Block: block, Condition: sample.Condition{Procs: 1, Scenario: sample.Scenario{Name: row}},
				Contender: engine, Iterations: 1,
				Values: map[string]float64{"ns/op": ns * drift, "B/op": 8 * allocs, "allocs/op": allocs},
			})
		}
		for _, row := range []string{"A", "B", "C", "D"} {
			add("slow", row, 100, 3)
		}
		add("fast", "A", 50, 0)
		add("fast", "B", 200, 2)
		add("fast", "C", 80+10*float64(block), 0)
	}
	return r
}

func TestRatiosAreWithinBlocks(t *testing.T) {
	a := Analyze(canned())
	if len(a.Tables) != 1 || len(a.Tables[0].Rows) != 4 {
		t.Fatalf("tables: %+v", a.Tables)
	}
	cell := func(row int) Cell { return a.Tables[0].Rows[row].Cells[1] }
	if r := cell(0).Ratio; r != (stat.Interval{Lo: 0.5, Mid: 0.5, Hi: 0.5}) {
		t.Errorf("ratio of A is %v, want 0.5 despite the drift", r)
	}
	if r := cell(2).Ratio; r.Lo != 0.9 || r.Hi != 1.4 || r.Finding() != stat.Unclear {
		t.Errorf("ratio of C is %v, want 0.9 to 1.4", r)
	}
	if p := cell(0).PublishedRatio; p != 0.4 {
		t.Errorf("published ratio of A is %v, want 0.4", p)
	}
	if c := cell(3); c.Trials != 0 || !math.IsNaN(c.Ratio.Mid) || c.NsText() != "–" {
		t.Errorf("a row without a benchmark: %+v", c)
	}
	if e := a.Tables[0].Engines; len(e) != 2 {
		t.Errorf("shown engines: %v", e)
	}
	if c := a.Tables[0].Rows[0].Cells[0]; !math.IsNaN(c.Ratio.Mid) || !math.IsNaN(c.PublishedRatio) || c.Allocs != 3 ||
		c.Bytes != 24 {
		t.Errorf("the control: %+v", c)
	}
}

func TestShapeComparesWithPublished(t *testing.T) {
	a := Analyze(canned())
	got := strings.Join(a.Shape(), "\n")
	for _, want := range []string{
		"The published order of Fast and Slow is confirmed in 1 of 3 rows; it is reversed or equal in B at GOMAXPROCS 1; it is unclear in C at GOMAXPROCS 1. In 1 row the difference is smaller than published.",
		"Fast makes no allocations per operation in 2 of the 3 rows where that was published; it does in B at GOMAXPROCS 1 (2).",
		"Time has passed.",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("want %q in\n%s", want, got)
		}
	}
	if want := "All, relative to Slow's time: Fast takes 0.50–2.00 at GOMAXPROCS 1 (published 0.40–0.90)."; a.Verdict() != want {
		t.Errorf("got %q, want %q", a.Verdict(), want)
	}
	empty := &sample.Run{Blocks: 1, Benchmarks: new(sample.Benchmarks)}
	if got := Analyze(empty).Verdict(); got != "No results can be compared." {
		t.Errorf("an empty run: %q", got)
	}
}

// Reports have empty cells for failed and missing samples.
func TestReportsAllowMissingFigures(t *testing.T) {
	r := canned()
	for i := range r.Records {
		s := &r.Records[i]
		row := s.Scenario.Name
		if s.Contender == "slow" && row == "A" && s.Block < 4 || s.Contender == "fast" && row == "B" {
			s.Failure, s.Values = "a failure", nil
		}
	}
	r.Entrants = append(r.Entrants, sample.Entrant{Name: "gone", Title: "Gone", Prefix: "Gone", Absent: "missing"})
	a := Analyze(r)
	if e := a.Tables[0].Engines; len(e) != 2 || e[1] != 1 {
		t.Errorf("shown engines: %v, want no absent one", e)
	}
	if c := a.Tables[0].Rows[0].Cells[1]; c.Ratio.Mid != 0.5 || c.Ratio.Known() || c.Trials != 6 {
		t.Errorf("A with half of the control's samples: %+v", c)
	}
	var text, page, table bytes.Buffer
	for _, err := range []error{a.WriteText(&text), a.writePage(&page), a.writeCSV(&table)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, b := range []*bytes.Buffer{&text, &page} {
		for _, want := range []string{
			"FAILED: B at GOMAXPROCS 1 of Fast: a failure", "LEFT OUT: Gone: missing", "Fast has no benchmark of D",
		} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("want %q in\n%s", want, b.String())
			}
		}
		if strings.Contains(b.String(), "NaN") || strings.Contains(b.String(), "Inf") {
			t.Errorf("NaN or Inf in\n%s", b.String())
		}
	}
	if want := ",1,A,fast,6,625,50,1800,0,0,0.5,,,unclear,400,0,0,0.4\n"; !strings.Contains(table.String(), want) {
		t.Errorf("want %q in\n%s", want, table.String())
	}
}

// Keys of run.json are in camel case, with the unit.
func TestRunKeysAreCamelCase(t *testing.T) {
	var file bytes.Buffer
	if err := Analyze(canned()).writeRun(&file); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"measureNs", "nsPerOp", "bytesPerOp", "allocsPerOp"} {
		if !strings.Contains(file.String(), `"`+key+`": `) {
			t.Errorf("no key %q in\n%s", key, file.String())
		}
	}
	for line := range strings.Lines(file.String()) {
		if key, _, ok := strings.Cut(line, `": `); ok && strings.Contains(key, "_") {
			t.Errorf("key %q", strings.TrimSpace(key))
		}
	}
}
