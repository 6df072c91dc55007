package report

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/perf/benchfmt"

	"github.com/tarehq/tare/internal/lab/trial"
)

// Names of the files in a results folder.
const (
	PageFile    = "report.html"
	csvFile     = "results.csv"
	benchFile   = "results.txt"
	runFile     = "run.json"
	JournalFile = "trials.jsonl"
	ConfigsDir  = "configs"
)

// File is a file of a results folder.
type File struct {
	Name    string
	Content string // description for a reader
	write   func(io.Writer) error
}

// Files returns the files that WriteFiles writes, and the journal and the configurations, the most
// useful first.
func (a *Analysis) Files() []File {
	return []File{
		{PageFile, "this page", a.writePage},
		{csvFile, "results of each contender under each condition", a.writeCSV},
		{contendersFile, "contenders: versions, lines of source, and responses before the load", a.writeContenders},
		{responsesFile, "differences of responses from the control's", a.writeResponses},
		{latencyFile, "percentiles of latency", a.writeLatency},
		{pairsFile, "costs of the parts", a.writePairs},
		{differencesFile, "differences from the control, by part", a.writeDifferences},
		{countsFile, "counted resources per request", a.writeCounts},
		{shapeFile, "requests per second, published and here", a.writeShape},
		{sweepsFile, "results along the axes of sweeps", a.writeSweeps},
		{JournalFile, "all trials with their times, one JSON object per line", nil},
		{benchFile, "all timed trials in Go's benchmark format, for benchstat", a.writeBench},
		{runFile, "everything else about the run", a.writeRun},
		{ConfigsDir + "/", "the nginx configurations of the run", nil},
	}
}

// WriteFiles writes everything but the journal and the configurations into a results folder. It
// continues after an error and returns the first.
func (a *Analysis) WriteFiles(dir string) error {
	var first error
	for _, file := range a.Files() {
		if file.write == nil {
			continue
		}
		if err := WriteFile(filepath.Join(dir, file.Name), file.write); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// WriteFile writes a file completely or not at all.
func WriteFile(name string, write func(io.Writer) error) error {
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename
	err = write(f)
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Chmod(f.Name(), 0o644) // CreateTemp makes files private; results are not
	}
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.Rename(f.Name(), name)
}

func (a *Analysis) writeRun(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(a.Run)
}

// conditionColumns returns the columns of a condition in every CSV file.
func conditionColumns() []string {
	return []string{"cores", "connections", "asked_per_sec", "scenario"}
}

// conditionCells returns the cells of a condition. At saturation the rate is empty.
func conditionCells(c trial.Condition) []string {
	rate := ""
	if !c.Saturated() {
		rate = csvNumber(c.Rate)
	}
	return []string{strconv.Itoa(c.Cores), strconv.Itoa(c.Connections), rate, c.Scenario.Name}
}

// csvHeader returns the columns of results.csv. Names of times end in their unit, bounds of
// intervals in lo and hi.
func csvHeader() []string {
	names := slices.Concat([]string{"experiment"}, conditionColumns(), []string{
		"contender", "kind", "trials",
		"weight_us", "weight_us_lo", "weight_us_hi", "ratio", "ratio_lo", "ratio_hi", "finding",
		"slices", "slice_spread", "start_spread",
	})
	for _, role := range trial.Roles() {
		names = append(names, role+"_user_us", role+"_sys_us")
	}
	return append(names,
		"requests_per_sec", "p50_ms", "p90_ms", "p99_ms", "p999_ms", "max_ms",
		"voluntary_switches_per_request", "involuntary_switches_per_request", "rss_bytes", "other_accepts_per_sec",
	)
}

// writeCSV writes the rows of all tables.
func (a *Analysis) writeCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	_ = out.Write(csvHeader()) // the writer keeps its first error
	for i := range a.Tables {
		t := &a.Tables[i]
		for j := range t.Rows {
			r := &t.Rows[j]
			cells := slices.Concat([]string{a.Experiment}, conditionCells(t.Condition),
				[]string{r.Name, string(r.Kind), strconv.Itoa(r.Trials)})
			for _, v := range []float64{r.WeightUs.Mid, r.WeightUs.Lo, r.WeightUs.Hi, r.Ratio.Mid, r.Ratio.Lo,
				r.Ratio.Hi} {
				cells = append(cells, csvNumber(v))
			}
			cells = append(cells, r.Finding.String(), strconv.Itoa(r.Slices), csvNumber(r.SliceSpread),
				csvNumber(r.StartSpread))
			for _, role := range trial.Roles() {
				p := r.part(role)
				cells = append(cells, csvNumber(p.UserUs), csvNumber(p.SysUs))
			}
			cells = append(cells, csvNumber(r.PerSecond.Mid))
			for _, q := range []float64{0.5, 0.9, 0.99, 0.999, 1} {
				cells = append(cells, csvNumber(ms(r.Latency.Quantile(q))))
			}
			cells = append(cells, csvNumber(r.Voluntary), csvNumber(r.Involuntary), csvNumber(r.RSS),
				csvNumber(r.OtherAccepts))
			_ = out.Write(cells)
		}
	}
	out.Flush()
	return out.Error()
}

func (r *Row) part(role string) Part {
	for _, p := range r.Parts {
		if p.Role == role {
			return p
		}
	}
	return Part{Role: role}
}

// benchCondition returns a condition as a part of a benchmark's name.
func benchCondition(c trial.Condition) string {
	name := fmt.Sprintf("cores=%d/connections=%d", c.Cores, c.Connections)
	for _, more := range []struct {
		key   string
		value float64
	}{{"rate", c.Rate}, {"gomaxprocs", float64(c.Procs)}, {"workers", float64(c.Workers)}} {
		if more.value > 0 {
			name += fmt.Sprintf("/%s=%s", more.key, csvNumber(more.value))
		}
	}
	if s := c.Scenario.Name; s != "" {
		name += "/scenario=" + strings.NewReplacer(" ", "-", "/", "-").Replace(s)
	}
	if c.Axis != "" {
		name += "/sweep=" + c.Axis
	}
	return name
}

// writeBench writes every timed trial in Go's benchmark format, which benchstat reads.
func (a *Analysis) writeBench(w io.Writer) error {
	out := benchfmt.NewWriter(w)
	for i := range a.Records {
		r := &a.Records[i]
		if !r.Timed() {
			continue
		}
		voluntary, involuntary := r.SwitchesPerRequest()
		res := &benchfmt.Result{
			Name: benchfmt.Name(fmt.Sprintf("Weigh/%s/contender=%s/%s", a.Experiment, r.Contender,
				benchCondition(r.Condition))),
			Iters: int(r.Load.Requests),
			Config: []benchfmt.Config{
				{Key: "cpu", Value: []byte(a.Environment.CPU), File: true},
				{Key: "kernel", Value: []byte(a.Environment.Kernel), File: true},
				{Key: "tare", Value: []byte(a.Tool), File: true},
			},
			Values: []benchfmt.Value{
				{Value: r.WeightUs(), Unit: "server-µs/req"},
				{Value: r.Load.PerSecond(), Unit: "req/s"},
				{Value: ms(r.Load.Latency.Quantile(0.5)), Unit: "p50-ms"},
				{Value: ms(r.Load.Latency.Quantile(0.99)), Unit: "p99-ms"},
				{Value: voluntary, Unit: "waits/req"},
				{Value: involuntary, Unit: "preemptions/req"},
				{Value: float64(r.RSS()), Unit: "rss-B"},
			},
		}
		if err := out.Write(res); err != nil {
			return err
		}
	}
	return nil
}
