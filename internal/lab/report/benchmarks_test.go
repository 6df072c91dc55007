package report

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/stat"
)

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
	start(r)
	return r
}

// result returns the row of a benchmark.
func result(t *testing.T, a *Report, engine, name string) analyze.EngineRow {
	t.Helper()
	for row := range a.benchmarkRows() {
		if row.Name == engine && row.Benchmark == name {
			return row
		}
	}
	t.Fatalf("no row of %s, %s", name, engine)
	return analyze.EngineRow{}
}

func TestRatiosOfBenchmarksAreWithinBlocks(t *testing.T) {
	a := New(canned())
	if len(a.EngineTables) != 1 || len(a.EngineTables[0].Rows) != 7 {
		t.Fatalf("tables: %+v", a.EngineTables)
	}
	row := result(t, a, "fast", "A")
	if r := row.Ratio; math.Abs(r.Mid-0.5) > 1e-9 || r.Hi-r.Lo > 1e-9 || row.PublishedRatio != 0.4 {
		t.Errorf("ratio of A is %v, want 0.5 despite the drift; published %v", r, row.PublishedRatio)
	}
	// Student's interval of the logarithms of 0.9, 1, 1.1, 1.2, 1.3 and 1.4.
	if r := result(t, a, "fast", "C").Ratio; fixed(2, r.Lo) != "0.96" || fixed(2, r.Hi) != "1.35" ||
		r.Finding() != stat.Unclear {
		t.Errorf("ratio of C is %v, want 0.96 to 1.35", r)
	}
	if c := result(t, a, "slow", "A"); !math.IsNaN(c.Ratio.Mid) || !math.IsNaN(c.PublishedRatio) || c.Allocs != 3 ||
		c.Bytes != 24 {
		t.Errorf("the control: %+v", c)
	}
}

func TestBenchmarksAreComparedWithPublished(t *testing.T) {
	a := New(canned())
	got := strings.Join(a.Remarks(), "\n")
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
	if got := New(empty).Verdict(); got != "No results can be compared." {
		t.Errorf("an empty run: %q", got)
	}
}

// Reports of benchmarks have empty cells for failed and missing samples.
func TestBenchmarksMayLackFigures(t *testing.T) {
	r := canned()
	for i := range r.Records {
		s := &r.Records[i]
		row := s.Scenario.Name
		if s.Contender == "slow" && row == "A" && s.Block < 4 || s.Contender == "fast" && row == "B" {
			s.Failure, s.Values = "a failure", nil
		}
	}
	r.Entrants = append(r.Entrants, sample.Entrant{Name: "gone", Title: "Gone", Prefix: "Gone", Absent: "missing"})
	a := New(r)
	if c := result(t, a, "fast", "A"); math.Abs(c.Ratio.Mid-0.5) > 1e-9 || c.Trials != 6 {
		t.Errorf("A with half of the control's samples: %+v", c)
	}
	dir := t.TempDir()
	var text bytes.Buffer
	if err := errors.Join(a.WriteText(&text), a.WriteFiles(dir)); err != nil {
		t.Fatal(err)
	}
	read := func(name string) *bytes.Buffer {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return bytes.NewBuffer(content)
	}
	page := read(PageFile)
	for _, b := range []*bytes.Buffer{&text, page, read(textFile)} {
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
	for name, want := range map[string]string{
		csvFile: ",1,A,fast,6,625,50,1800,0,0,0.5,", benchFile: "\nBenchmarkSlowB 1 24 B/op 3 allocs/op 100 ns/op\n",
	} {
		if got := read(name).String(); !strings.Contains(got, want) {
			t.Errorf("want %q in\n%s", want, got)
		}
	}
}

// Keys of run.json are in camel case, with the unit.
func TestKeysOfBenchmarksAreCamelCase(t *testing.T) {
	dir := t.TempDir()
	if err := canned().Write(dir); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, sample.RunFile))
	if err != nil {
		t.Fatal(err)
	}
	file := string(b)
	for _, key := range []string{"measureNs", "nsPerOp", "bytesPerOp", "allocsPerOp"} {
		if !strings.Contains(file, `"`+key+`": `) {
			t.Errorf("no key %q in\n%s", key, file)
		}
	}
	for line := range strings.Lines(file) {
		if key, _, ok := strings.Cut(line, `": `); ok && strings.Contains(key, "_") {
			t.Errorf("key %q", strings.TrimSpace(key))
		}
	}
}
