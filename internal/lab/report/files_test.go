package report

import (
	"encoding/csv"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/testkit"
)

func TestFilesHaveAllResults(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, New(fixture()).WriteFiles(dir))
	f := testkit.Value(os.Open(filepath.Join(dir, csvFile)))(t)
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) != 1+2*6 {
		t.Fatal(len(rows), err)
	}
	cells := make(map[string]string)
	for i, name := range rows[0] {
		cells[name] = rows[3][i]
	}
	for name, want := range map[string]string{
		"experiment": "front", "cores": "1", "connections": "64", "contender": "nginx-nethttp", "kind": "way",
		"trials": "6", "finding": "more",
		"weight_us": "31.05", "weight_us_lo": "25.3", "weight_us_hi": "36.8", "ratio": "2.3", "ratio_lo": "2.3",
		"ratio_hi":      "2.3",
		"nginx_user_us": "4.05", "nginx_sys_us": "12.15", "application_user_us": "3.712",
		"application_sys_us":             "11.137",
		"voluntary_switches_per_request": "0.3", "involuntary_switches_per_request": "0.06", "rss_bytes": "3e+07",
	} {
		got, gotErr := strconv.ParseFloat(cells[name], 64)
		number, err := strconv.ParseFloat(want, 64)
		if err != nil && cells[name] != want || err == nil &&
			(gotErr != nil || got < 0.999*number || got > 1.001*number) {
			t.Errorf("%s: got %q, want %s", name, cells[name], want)
		}
	}

	left, _ := filepath.Glob(filepath.Join(dir, ".*"))
	testkit.Equal(t, len(left), 0, "left behind:", left)
}

// Before a run, no file may exist that its report would replace.
func TestFileNamesAreKnownBeforeTheRun(t *testing.T) {
	targets := fixture()
	targets.Targets = []sample.Target{{Row: "r", Contender: "c", Metric: sample.CPU}}
	for _, run := range []*sample.Run{fixture(), targets} {
		dir := t.TempDir()
		testkit.Must(t, New(run).WriteFiles(dir))
		for _, e := range testkit.Value(os.ReadDir(dir))(t) {
			if !slices.Contains(FileNames(), e.Name()) {
				t.Errorf("%s is not among %q", e.Name(), FileNames())
			}
		}
	}
}

// resultsFolder writes a run into a results folder.
func resultsFolder(t *testing.T, run *sample.Run) string {
	t.Helper()
	dir := t.TempDir()
	testkit.Must(t, errors.Join(run.Write(dir), New(run).WriteFiles(dir)))
	j := testkit.Value(sample.NewJournal(dir))(t)
	for i := range run.Records {
		testkit.Must(t, run.Records[i].Add(j))
	}
	testkit.Must(t, j.Close())
	return dir
}

// A run that is read from its results folder has the same report.
func TestReadReturnsTheWrittenRun(t *testing.T) {
	run := fixture()
	dir := resultsFolder(t, run)
	again := testkit.Value(sample.Read(dir))(t)
	before, after := New(run).Text(), New(again).Text()
	testkit.Equal(t, after, before)
	// An incomplete last line of the journal is left out with a warning.
	journal := filepath.Join(dir, sample.JournalFile)
	b, err := os.ReadFile(journal)
	testkit.Must(t, err)
	testkit.Must(t, os.WriteFile(journal, b[:len(b)-10], 0o600))
	if again, err = sample.Read(dir); err != nil || len(again.Records) != len(run.Records)-1 ||
		again.Warnings[len(again.Warnings)-1] != "the last record is incomplete and left out" {
		t.Errorf("%d records, %v, want %d", len(again.Records), err, len(run.Records)-1)
	}
	for text, want := range map[string]string{"{": "unexpected end", `{"blocks":99999999}`: "want at most"} {
		testkit.WriteFile(t, filepath.Join(dir, sample.RunFile), text)
		testkit.Fails(sample.Read(dir))(t, want, text)
	}
	if _, err := sample.Read(t.TempDir()); err == nil || !strings.Contains(err.Error(),
		"want a results folder that tare weigh wrote") {
		t.Error(err)
	}
}

// A damaged journal is an error with the number of the line. A killed run has a warning.
func TestReadChecksTheJournal(t *testing.T) {
	const good = `{"block":1,"contender":"tare","failure":"it fell over"}` + "\n"
	for journal, want := range map[string]string{
		good + good[:20] + "\n" + good:                             "trials.jsonl:2: invalid character",
		good + "nonsense\n" + good:                                 "trials.jsonl:2: invalid character",
		good + good + `{"block":0,"contender":"tare"}` + "\n":      "trials.jsonl:3: invalid block 0: want 1 to 10000",
		`{"block":-1,"contender":"a","attribution":{}}` + "\n":     "trials.jsonl:1: invalid block -1: want 0 to 10000",
		`{"block":1}` + "\n":                                       "trials.jsonl:1: missing contender",
		`{"block":1,"contender":"tare"}` + "\n":                    "trials.jsonl:1: no result and no failure",
		`{"block":1,"contender":"tare","load":{}}` + "\n":          "trials.jsonl:1: missing latency",
		`{"block":1,"contender":"a","load":{"latency":{}}}` + "\n": "trials.jsonl:1: hist: ",
		good:                          "trials.jsonl:2: has 1 of 3 records",
		good + good + good:            "",
		good + good + good + good[:9]: "",
	} {
		dir := t.TempDir()
		testkit.WriteFile(t, filepath.Join(dir, sample.RunFile), `{"blocks":1,"records":3}`)
		testkit.WriteFile(t, filepath.Join(dir, sample.JournalFile), journal)
		run, err := sample.Read(dir)
		if want != "" {
			testkit.Error(t, err, want, journal)
			continue
		}
		if err != nil || len(run.Records) != 3 || !strings.HasPrefix(run.Warnings[0], "the run was killed") ||
			New(run).Text() == "" {
			t.Errorf("%s: %+v, %v", journal, run, err)
		}
	}
}

func compareText(t *testing.T, a, b *sample.Run) (two *RunComparison, text string) {
	t.Helper()
	var out strings.Builder
	two = Compare(a, b)
	out.WriteString(two.Text())
	return two, out.String()
}

func TestEqualRunsAgree(t *testing.T) {
	two, text := compareText(t, fixture(), fixture())
	if len(two.Mismatches) > 0 || len(two.Changes) > 0 || len(two.Tables) != 2 || len(two.Tables[0].Rows) != 6 {
		t.Errorf("mismatches %q, changes %q, %d tables", two.Mismatches, two.Changes, len(two.Tables))
	}
	for _, r := range two.Tables[0].Rows {
		testkit.Equal(t, agreement(r[0], r[1]), "agree", r[0].Title)
	}
	if strings.Contains(text, "WARNING") || strings.Contains(text, "changed") || !strings.Contains(text, "2.30–2.30") {
		t.Error(text)
	}
}

// A contender that became heavier is found, and changed settings are named.
func TestCompareFindsChanges(t *testing.T) {
	b := fixture()
	b.Environment.Sysctls = map[string]string{"net.core.somaxconn": "128", "net.ipv4.tcp_tw_reuse": "1"}
	for i := range b.Entrants {
		if b.Entrants[i].Name == "tare" {
			b.Entrants[i].Versions = []string{"go1.99"}
		}
	}
	b.Entrants = slices.DeleteFunc(b.Entrants, func(e sample.Entrant) bool { return e.Name == "ceiling" })
	b.Records = slices.DeleteFunc(b.Records, func(r sample.Record) bool { return r.Contender == "tare" })
	for _, c := range b.Conditions {
		for block := range blocks {
			b.Records = append(b.Records, record("tare", block+1, c, 0, 13))
		}
	}
	two, text := compareText(t, fixture(), b)
	testkit.Equal(t, strings.Join(two.Mismatches, "; "), "", "mismatches")
	want := []string{
		"net.core.somaxconn: 4096 in A, 128 in B", "net.ipv4.tcp_tw_reuse: none in A, 1 in B",
		"tare: versions: go1.26.8 in A, go1.99 in B", "ceiling: only in A",
	}
	testkit.Equal(t, two.Changes, want)
	for _, r := range two.Tables[0].Rows {
		want := map[bool]string{true: "more in B", false: "agree"}[r[0].Title == "tare"]
		testkit.Equal(t, agreement(r[0], r[1]), want, r[0].Title)
	}
	for _, line := range want {
		testkit.Contains(t, text, line)
	}
	if reversed := Compare(b, fixture()); !slices.Contains(reversed.Changes, "ceiling: only in B") {
		t.Errorf("reversed: %q", reversed.Changes)
	}
}

// Runs of different machines or conditions are incomparable, and each difference is named.
func TestRunsOfDifferentMachinesAreIncomparable(t *testing.T) {
	for want, change := range map[string]func(*sample.Run){
		"experiment: front in A, fastcgi in B":        func(r *sample.Run) { r.Experiment = "fastcgi" },
		"processor: A processor in A, Another in B":   func(r *sample.Run) { r.Environment.CPU = "Another" },
		"processors: 2 in A, 4 in B":                  func(r *sample.Run) { r.Environment.Cores = 4 },
		"memory: 24 GB in A, 48 GB in B":              func(r *sample.Run) { r.Environment.Memory = 48e9 },
		"kernel: Linux 6 in A, Linux 7 in B":          func(r *sample.Run) { r.Environment.Kernel = "Linux 7" },
		"measured time of a trial: 2s in A, 4s in B":  func(r *sample.Run) { r.Measure *= 2 },
		"warm-up: 300ms in A, 600ms in B":             func(r *sample.Run) { r.Warmup *= 2 },
		"placement: servers on [0], generator on [1]": func(r *sample.Run) { r.Placement = "all" },
		"conditions: 64 connections and the servers on one core; 1000 connections and the servers on one core in A, 64 connections and the servers on one core in B": func(r *sample.Run) { r.Conditions = r.Conditions[:1] },
		"control: net/http in A, none in B": func(r *sample.Run) { r.Entrants[0].Kind = sample.Way },
	} {
		b := fixture()
		change(b)
		two, text := compareText(t, fixture(), b)
		if len(two.Mismatches) != 1 || !strings.HasPrefix(two.Mismatches[0], want) ||
			!strings.Contains(text, "WARNING: these runs cannot be compared") {
			t.Errorf("got %q, want %q", two.Mismatches, want)
		}
	}
	b := fixture()
	b.Environment.Memory += 100e6 // memory that the kernel reserves
	testkit.Equal(t, strings.Join(Compare(fixture(), b).Mismatches, "; "), "", "mismatches of the same machine")
}
