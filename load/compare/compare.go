// Package compare reports by how much two runs of the generator, or two sets of runs, differ, and
// whether the difference exceeds their own variation.
package compare

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/stat"
	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/hist"
	"github.com/tarehq/tare/load/report"
)

// Side is one of the two compared sides: a run, or several runs of the same Plan.
type Side struct {
	Name string
	Runs []*report.Run
}

// Comparison holds the differences between two sides.
type Comparison struct {
	A, B Side
	Rows []Row
	// Differences lists the differing settings and machines, which may explain differing figures.
	Differences []string
	// Remarks explain missing intervals.
	Remarks []string
}

// Row is one figure of both sides.
type Row struct {
	Name string
	A, B string // formatted values
	// Ratio is B's value divided by A's, with its interval. It is NaN if there is none.
	Ratio stat.Interval
	// IsMain marks the main figure for this kind of run.
	IsMain bool
}

// IsFaster reports whether B is faster than A by this figure, or slower: whether the ratio is beyond
// stat.Margin. Otherwise no difference is shown. More is better of the rate, and less of all others.
func (r *Row) IsFaster() (faster, slower bool) {
	f := r.Ratio.Finding()
	if r.Name == rateName {
		return f == stat.More, f == stat.Less
	}
	return f == stat.Less, f == stat.More
}

// result describes the finding of a row; "" without an interval.
func (r *Row) result() string {
	switch faster, slower := r.IsFaster(); {
	case faster:
		return "faster"
	case slower:
		return "slower"
	case r.Ratio.Known():
		return "no difference shown"
	}
	return ""
}

// Judge compares B with bounds, all of changes from A or of B's errors. It returns an outcome for
// each.
func (c *Comparison) Judge(g load.Goal) (all []stat.Outcome, err error) {
	for _, b := range g.Bounds {
		if b.Figure == load.ErrorShare {
			all = append(all, stat.OutcomeOf(b.Holds(newWhole(c.B.Runs).errorShare())))
			continue
		}
		name := b.Name()
		if b.Figure == load.Rate {
			name = rateName
		}
		i := slices.IndexFunc(c.Rows, func(r Row) bool { return r.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("compare: %s: %s is not compared", b, name)
		}
		all = append(all, c.Rows[i].Ratio.Against(1+b.Limit, b.Figure == load.Rate))
	}
	return all, nil
}

func none() stat.Interval {
	return stat.Interval{Lo: math.Inf(-1), Mid: math.NaN(), Hi: math.Inf(1)}
}

type figure struct {
	name   string
	format func(float64) string
	of     func(*whole) float64
	// by computes the figure from a part of the timeline; nil if the timeline lacks it.
	by func(*sum) float64
}

// Names of figures with special treatment.
const (
	rateName   = "requests/s"
	tailName   = "p99"
	errorsName = "errors"
)

func figures() []figure {
	all := []figure{
		{rateName, report.Count, (*whole).rate, (*sum).rate},
		{"mean", nanoseconds, func(w *whole) float64 { return float64(w.latency.Mean()) }, (*sum).mean},
	}
	for _, q := range []float64{0.5, 0.9, 0.99} {
		all = append(all, figure{
			fmt.Sprintf("p%.0f", 100*q), nanoseconds,
			func(w *whole) float64 { return float64(w.latency.Quantile(q)) },
			func(s *sum) float64 { return s.quantile(q) },
		})
	}
	return append(all,
		figure{errorsName, func(share float64) string { return fmt.Sprintf("%.3g%%", 100*share) },
			(*whole).errorShare, (*sum).errorShare},
		figure{"generator CPU/request", nanoseconds, (*whole).cpu, nil})
}

func nanoseconds(ns float64) string { return report.Duration(time.Duration(ns)) }

type whole struct {
	requests, ended, errors, seconds, cpuSeconds float64
	latency                                      *hist.Histogram
}

func newWhole(runs []*report.Run) *whole {
	w := &whole{latency: hist.New()}
	for _, r := range runs {
		w.requests += float64(r.Requests)
		w.ended += float64(r.Ended())
		w.errors += float64(r.Errors.Total())
		w.seconds += r.Seconds
		w.cpuSeconds += r.Generator.UserSeconds + r.Generator.SysSeconds
		w.latency.Merge(r.Latency)
	}
	return w
}

func (w *whole) rate() float64       { return w.requests / w.seconds }
func (w *whole) errorShare() float64 { return w.errors / w.ended }
func (w *whole) cpu() float64        { return w.cpuSeconds / w.requests * float64(time.Second) }

// Compare compares b with a.
func Compare(a, b Side) (*Comparison, error) {
	if len(a.Runs) == 0 || len(b.Runs) == 0 {
		return nil, errors.New("compare: want at least one run on each side")
	}
	c := &Comparison{A: a, B: b, Differences: differences(a.Runs, b.Runs)}
	seriesA, remarkA := newSeries(a)
	seriesB, remarkB := newSeries(b)
	c.remark(remarkA)
	c.remark(remarkB)
	all := figures()
	intervals := make([]stat.Interval, len(all))
	for i := range intervals {
		intervals[i] = none()
	}
	wholeA, wholeB := newWhole(a.Runs), newWhole(b.Runs)
	if seriesA.enough() && seriesB.enough() {
		intervals = bootstrap(seriesA, seriesB, all, resamples)
	}
	main := rateName
	openA, openB := a.Runs[0].Open(), b.Runs[0].Open()
	if openA || openB { // the schedule determines the rate
		main = tailName
	}
	if openA != openB {
		c.remark("One loop is open and the other closed: their figures are not comparable.")
	}
	for i, f := range all {
		row := Row{Name: f.name, IsMain: f.name == main}
		inA, inB := f.of(wholeA), f.of(wholeB)
		row.A, row.B = f.format(inA), f.format(inB)
		row.Ratio = shift(intervals[i], inB/inA)
		c.Rows = append(c.Rows, row)
	}
	return c, nil
}

func (c *Comparison) remark(text string) {
	if text != "" && !slices.Contains(c.Remarks, text) {
		c.Remarks = append(c.Remarks, text)
	}
}

func shift(i stat.Interval, ratio float64) stat.Interval {
	if math.IsNaN(ratio) || math.IsInf(ratio, 0) || ratio == 0 {
		return none()
	}
	if !i.Known() {
		return stat.Interval{Lo: math.Inf(-1), Mid: ratio, Hi: math.Inf(1)}
	}
	return stat.Interval{Lo: ratio * i.Lo, Mid: ratio, Hi: ratio * i.Hi}
}

// differences lists the settings and machines in which the sides differ. The first run of a side
// stands for all.
func differences(runsA, runsB []*report.Run) (all []string) {
	a, b := runsA[0], runsB[0]
	add := func(what string, a, b any) {
		if a != b {
			all = append(all, fmt.Sprintf("%s: %v and %v", what, a, b))
		}
	}
	add("URL", a.URL, b.URL)
	add("connections", a.Connections, b.Connections)
	add("threads", a.Threads, b.Threads)
	add("loop", loop(a), loop(b))
	names := slices.Sorted(maps.Keys(a.About.Flags))
	names = append(names, slices.Sorted(maps.Keys(b.About.Flags))...)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if name != "connections" && name != "threads" {
			add("--"+name, given(a, name), given(b, name))
		}
	}
	add("tare", a.About.Tool, b.About.Tool)
	add("CPU", a.About.Machine.CPU, b.About.Machine.CPU)
	add("CPU cores", a.About.Machine.Cores, b.About.Machine.Cores)
	add("kernel", a.About.Machine.Kernel, b.About.Machine.Kernel)
	return all
}

func loop(r *report.Run) string {
	if r.Open() {
		return "open"
	}
	return "closed"
}

func given(r *report.Run, flag string) string {
	if v, ok := r.About.Flags[flag]; ok {
		return v
	}
	return "not set"
}

// Verdict returns the result of the comparison in one sentence.
func (c *Comparison) Verdict() string {
	by := make(map[string][]string)
	var main *Row
	for i := range c.Rows {
		row := &c.Rows[i]
		if row.IsMain {
			main = row
			continue
		}
		by[row.result()] = append(by[row.result()], row.Name)
	}
	text := ""
	switch faster, slower := main.IsFaster(); {
	case !main.Ratio.Known():
		return fmt.Sprintf("No verdict without intervals. The ratio of %s is %.3f.", main.Name, main.Ratio.Mid)
	case faster || slower:
		text = fmt.Sprintf("B is %s: %s %.3f times A's", main.result(), main.Name, main.Ratio.Mid)
	default:
		text = fmt.Sprintf("No difference shown in %s", main.Name)
	}
	text += fmt.Sprintf(" (%.3f to %.3f)", main.Ratio.Lo, main.Ratio.Hi)
	for _, result := range []string{"faster", "slower"} {
		if len(by[result]) > 0 {
			text += fmt.Sprintf("; %s by %s", result, strings.Join(by[result], ", "))
		}
	}
	return text + "."
}
