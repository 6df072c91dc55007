package report

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
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
	known := FileNames()
	for _, run := range []*sample.Run{fixture(), targets} {
		for _, f := range New(run).Files() {
			if !slices.Contains(known, f.Name) {
				t.Errorf("%s is not among %q", f.Name, known)
			}
		}
	}
}
