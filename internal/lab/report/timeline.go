package report

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/stat"
	"github.com/tarehq/tare/internal/page"
)

// timeline shows every trial at its time, in a row for each contender. A stem goes up from the
// row's middle if the trial's weight was above the contender's median under the same condition, and
// down if it was below.
type timeline struct {
	Left, Right, Top, Foot float64

	Unit   string
	Ticks  []page.Tick
	Blocks []blockBegin
	Rows   []timelineRow
	Full   string // deviation of the longest stem
	Alt    string
}

// timelineRow is the row of one contender.
type timelineRow struct {
	Label, Title, Class string
	Y                   float64 // of its middle
	Stems               []stem
}

// stem is one trial.
type stem struct {
	Class string  // more, less, failed or counted
	X, Y  float64 // where it begins
	Long  float64 // length downwards
	Title string
}

// blockBegin is where a block begins.
type blockBegin struct {
	X      float64
	Number string // "" if there is no room for it
}

// Geometry of a timeline.
const (
	timelineRowHeight = 34
	timelineTop       = 18 // space for the blocks' numbers
	timelineReach     = 13 // of the longest stem
)

// seriesKey identifies the trials with one median: of a contender under a condition.
type seriesKey struct {
	contender string
	sample.Condition
}

// relative returns each timed trial's weight, divided by the contender's median under the same
// condition. It is NaN for other trials.
func (a *Report) relative() []float64 {
	all := make(map[seriesKey][]float64)
	of := func(rec *sample.Record) seriesKey { return seriesKey{rec.Contender, rec.Condition} }
	for i := range a.Records {
		if rec := &a.Records[i]; rec.Timed() {
			all[of(rec)] = append(all[of(rec)], rec.WeightUs())
		}
	}
	medians := make(map[seriesKey]float64)
	for key, weights := range all {
		medians[key] = stat.Median(weights).Mid
	}
	relative := make([]float64, len(a.Records))
	for i := range a.Records {
		relative[i] = math.NaN()
		if rec := &a.Records[i]; rec.Timed() && medians[of(rec)] > 0 {
			relative[i] = rec.WeightUs() / medians[of(rec)]
		}
	}
	return relative
}

// span returns when the first and the last of the selected trials began.
func (a *Report) span(among func(*sample.Record) bool) (first, last time.Time) {
	for i := range a.Records {
		rec := &a.Records[i]
		if !among(rec) {
			continue
		}
		if first.IsZero() || rec.Start.Before(first) {
			first = rec.Start
		}
		if rec.Start.After(last) {
			last = rec.Start
		}
	}
	return first, last
}

// Timeline returns the timeline of the run, or nil if the times of trials are unknown.
func (a *Report) Timeline() *timeline {
	first, last := a.span(func(*sample.Record) bool { return true })
	// Its medians are those of conditions with the control, under load.
	if !last.After(first) || len(a.Targets) > 0 {
		return nil
	}
	minutes := func(at time.Time) float64 { return at.Sub(first).Minutes() }
	x := newAxis(0, minutes(last))
	t := &timeline{Left: chartLeft, Right: chartWidth - chartMargin, Top: timelineTop, Unit: "minutes",
		Ticks: x.Ticks(page.Number)}
	relative := a.relative()
	full := fullStem(relative)
	t.Full = fmt.Sprintf("%.0f %%", 100*full)
	for i := range a.Entrants {
		e := &a.Entrants[i]
		row := timelineRow{Label: e.Title, Title: described(e), Class: string(e.Kind), Y: timelineTop +
			(float64(len(t.Rows))+0.5)*timelineRowHeight}
		for j := range a.Records {
			if rec := &a.Records[j]; rec.Contender == e.Name {
				row.Stems = append(row.Stems, a.stem(rec, relative[j], full, x.At(minutes(rec.Start)), row.Y))
			}
		}
		if len(row.Stems) > 0 {
			t.Rows = append(t.Rows, row)
		}
	}
	t.Foot = timelineTop + float64(len(t.Rows))*timelineRowHeight
	t.Blocks = a.blockBegins(func(at time.Time) float64 { return x.At(minutes(at)) })
	t.Alt = "The time of each trial, and how far its CPU time per request was from the contender's median. " + a.Drift()
	return t
}

// ViewBox returns the view box of the timeline, as that of a chart.
func (t *timeline) ViewBox() string {
	c := chart{Width: chartWidth, Height: t.Foot + axisHeight, Left: t.Left}
	for _, row := range t.Rows {
		c.Rows = append(c.Rows, chartRow{Label: row.Label})
	}
	return c.ViewBox()
}

// fullStem returns the deviation of the longest stem: at least leastFull, and enough for nine in
// ten trials.
func fullStem(relative []float64) float64 {
	const leastFull, mostFull, fitting = 0.05, 1, 0.9
	var off []float64
	for _, v := range stat.Known(relative) {
		off = append(off, math.Abs(v-1))
	}
	if len(off) == 0 {
		return leastFull
	}
	slices.Sort(off)
	at := off[min(len(off)-1, int(fitting*float64(len(off))))]
	for _, full := range []float64{leastFull, 0.1, 0.2, 0.5} {
		if at <= full {
			return full
		}
	}
	return mostFull
}

// stem returns a trial's stem in a row whose middle is at y.
func (a *Report) stem(r *sample.Record, relative, full, x, y float64) stem {
	s := stem{X: x, Y: y, Title: fmt.Sprintf("block %d, with %s: ", r.Block,
		r.Condition.Text())}
	switch {
	case r.Failure != "":
		s.Class = "failed"
		s.Title += "failed: " + firstLine(r.Failure)
	case r.Attribution != nil:
		s.Class = "counted"
		s.Title += "counted by the kernel, not timed"
	case math.IsNaN(relative):
		s.Class = "counted"
		s.Title += "no CPU time was measured"
	default:
		s.Long = -math.Round(10*timelineReach*math.Max(-1, math.Min(1, (relative-1)/full))) / 10
		s.Class = "less"
		if relative > 1 {
			s.Class = "more"
		}
		s.Title += fmt.Sprintf("%s per request, %+.1f %% from its median", micros(r.WeightUs()), 100*(relative-1))
	}
	return s
}

// mostNumbered is the largest number of blocks that are numbered.
const mostNumbered = 24

// blockBegins returns where the blocks begin.
func (a *Report) blockBegins(at func(time.Time) float64) (all []blockBegin) {
	begins := make(map[int]time.Time)
	for i := range a.Records {
		r := &a.Records[i]
		if first, ok := begins[r.Block]; (!ok || r.Start.Before(first)) && r.Attribution == nil {
			begins[r.Block] = r.Start
		}
	}
	for n := 1; n <= a.Blocks; n++ {
		if begin, ok := begins[n]; ok {
			b := blockBegin{X: at(begin)}
			if a.Blocks <= mostNumbered {
				b.Number = fmt.Sprint(n)
			}
			all = append(all, b)
		}
	}
	return all
}

// Drift reports how much the control's weight changed between the first and the last third of the
// run.
func (a *Report) Drift() string {
	control := a.Control()
	first, last := a.span((*sample.Record).Timed)
	third := last.Sub(first) / 3
	var early, late []float64
	for i, v := range a.relative() {
		r := &a.Records[i]
		switch {
		case control == nil || r.Contender != control.Name || math.IsNaN(v):
		case r.Start.Before(first.Add(third)):
			early = append(early, v)
		case !r.Start.Before(last.Add(-third)):
			late = append(late, v)
		}
	}
	const fewest = 2 // values of a median
	if len(early) < fewest || len(late) < fewest {
		return "There are too few trials of the control to estimate the drift of the machine."
	}
	return fmt.Sprintf("Between the first and the last third of the run, CPU time per request of %s changed by %+.1f %% (medians of %d and %d trials).",
		control.Title, 100*(stat.Median(late).Mid/stat.Median(early).Mid-1), len(early), len(late))
}
