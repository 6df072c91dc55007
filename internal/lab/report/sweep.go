package report

import (
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/tarehq/tare/internal/lab/stat"
	"github.com/tarehq/tare/internal/lab/trial"
	loadreport "github.com/tarehq/tare/load/report"
)

// The axes of sweeps.
const (
	GOMAXPROCS  = "gomaxprocs" // of the application, or its number of processes
	Connections = "connections"
	Workers     = "workers" // of nginx
)

// Axes returns all axes.
func Axes() []string { return []string{GOMAXPROCS, Connections, Workers} }

// Sweep is a series of trials along one axis. Tables do not include them.
type Sweep struct {
	Axis       string            `json:"axis"`
	Conditions []trial.Condition `json:"conditions"` // from the lowest value of the axis
	Labels     []string          `json:"labels"`     // names of the values
	Contenders []string          `json:"contenders"` // names in the entrants' order
	Blocks     int               `json:"blocks"`
	Measure    time.Duration     `json:"measureNs"`
}

// HasSweep reports whether the run has a sweep along an axis, or any for "all".
func (r *Run) HasSweep(axis string) bool {
	return slices.ContainsFunc(r.Sweeps, func(s Sweep) bool { return s.Axis == axis || axis == "all" })
}

// SweepResult is the result of a sweep.
type SweepResult struct {
	*Sweep
	Lines []SweepLine // of measured contenders
}

// SweepLine has the results of one contender along the axis.
type SweepLine struct {
	*Entrant
	Points []SweepPoint // one for each condition
}

// SweepPoint is the result of a contender at one value of the axis.
type SweepPoint struct {
	Label     string
	Trials    int
	WeightUs  Range
	PerSecond Range
	Failure   string // of the last trial; "" if it succeeded
}

// Range is the median, lowest and highest value of trials. Sweeps have too few blocks for
// intervals.
type Range struct{ Mid, Lo, Hi float64 }

func newRange(v []float64) (r Range) {
	if len(v) == 0 {
		return r
	}
	m, _ := stat.Median(v)
	return Range{m.Mid, slices.Min(v), slices.Max(v)}
}

// Below reports whether all trials of r were below all of s.
func (r Range) Below(s Range) bool { return r.Hi < s.Lo }

// SweepResults returns the results of the run's sweeps.
func (a *Analysis) SweepResults() (all []SweepResult) {
	for i := range a.Sweeps {
		s := SweepResult{Sweep: &a.Sweeps[i]}
		for _, name := range s.Contenders {
			if e := a.entrant(name); e != nil {
				if line := a.sweepLine(s.Sweep, e); slices.ContainsFunc(line.Points,
					func(p SweepPoint) bool { return p.Trials > 0 || p.Failure != "" }) {
					s.Lines = append(s.Lines, line)
				}
			}
		}
		if len(s.Lines) > 0 {
			all = append(all, s)
		}
	}
	return all
}

func (a *Analysis) sweepLine(s *Sweep, e *Entrant) SweepLine {
	line := SweepLine{Entrant: e, Points: make([]SweepPoint, len(s.Conditions))}
	for i, c := range s.Conditions {
		var weights, rates []float64
		p := &line.Points[i]
		p.Label = s.Labels[i]
		for j := range a.Records {
			r := &a.Records[j]
			if r.Contender != e.Name || r.Condition != c {
				continue
			}
			if p.Failure = r.Failure; r.Timed() {
				weights, rates = append(weights, r.WeightUs()), append(rates, r.Load.PerSecond())
			}
		}
		p.Trials, p.WeightUs, p.PerSecond = len(weights), newRange(weights), newRange(rates)
	}
	return line
}

// Title returns the name of the axis.
func (s *SweepResult) Title() string {
	switch s.Axis {
	case GOMAXPROCS:
		return "GOMAXPROCS, or number of processes"
	case Workers:
		return "nginx's workers"
	}
	return "Connections"
}

// OtherConditions describes the conditions without the axis.
func (s *SweepResult) OtherConditions() string {
	c := s.Conditions[0]
	c.Procs, c.Workers = 0, 0
	if s.Axis != Connections {
		return ConditionText(c)
	}
	_, cores, _ := strings.Cut(ConditionText(c), " and ")
	return cores
}

// writeSweepResults writes the results of the sweeps, for a terminal.
func (a *Analysis) writeSweepResults(b *strings.Builder) {
	for _, s := range a.SweepResults() {
		fmt.Fprintf(b, "%s (with %s, %s of %v): µs/request and requests/s\n\n", s.Title(), s.OtherConditions(),
			blocksText(s.Blocks), s.Measure)
		w := tabwriter.NewWriter(b, 0, 8, 2, ' ', tabwriter.AlignRight)
		wide := 0
		for _, line := range s.Lines {
			wide = max(wide, len([]rune(line.Title)))
		}
		fmt.Fprintf(w, "%*s\t%s\t\n", wide, "", strings.Join(s.Labels, "\t"))
		for _, line := range s.Lines {
			for i, row := range line.Cells() {
				title := line.Title
				if i > 0 {
					title = ""
				}
				fmt.Fprintf(w, "%-*s\t%s\t\n", wide, title, strings.Join(row, "\t"))
			}
		}
		_ = w.Flush()
		fmt.Fprintf(b, "\n%s\n\n", wrap(strings.Join(s.Sentences(), " "), textWidth))
	}
}

// Cells returns the weights in the first row and the rates in the second.
func (l *SweepLine) Cells() [][]string {
	rows := make([][]string, 2)
	for _, p := range l.Points {
		if p.Trials == 0 {
			rows[0], rows[1] = append(rows[0], "failed"), append(rows[1], "")
			continue
		}
		rows[0], rows[1] = append(rows[0], fmt.Sprintf("%.2f", p.WeightUs.Mid)),
			append(rows[1], loadreport.Count(p.PerSecond.Mid))
	}
	return rows
}

// sweepsFile has every point of every sweep.
const sweepsFile = "sweeps.csv"

// writeSweeps writes the results, one per line. Bounds are the lowest and the highest trial.
func (a *Analysis) writeSweeps(w io.Writer) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{
		"experiment", "axis", "value", "cores", "connections", "gomaxprocs", "workers", "contender", "trials",
		"weight_us", "weight_us_min", "weight_us_max", "requests_per_sec", "requests_per_sec_min",
		"requests_per_sec_max", "failure",
	}) // the writer keeps its first error
	for _, s := range a.SweepResults() {
		for _, line := range s.Lines {
			for i, p := range line.Points {
				c := s.Conditions[i]
				cells := []string{a.Experiment, s.Axis, p.Label}
				for _, n := range []int{c.Cores, c.Connections, c.Procs, c.Workers} {
					cells = append(cells, strconv.Itoa(n))
				}
				cells = append(cells, line.Name, strconv.Itoa(p.Trials))
				for _, v := range []float64{p.WeightUs.Mid, p.WeightUs.Lo, p.WeightUs.Hi, p.PerSecond.Mid,
					p.PerSecond.Lo, p.PerSecond.Hi} {
					if p.Trials == 0 {
						cells = append(cells, "")
					} else {
						cells = append(cells, csvNumber(v))
					}
				}
				_ = out.Write(append(cells, firstLine(p.Failure)))
			}
		}
	}
	out.Flush()
	return out.Error()
}
