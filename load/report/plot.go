package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/page"
	"github.com/tarehq/tare/load/hist"
)

// Geometry of a plot. Margins leave room for the labels, which are larger on a narrow screen.
const (
	plotWidth  = 640
	plotHeight = 232
	plotLeft   = 72 // the labels of the vertical axis are left of it
	plotRight  = 612
	plotTop    = 8
	plotBottom = 186 // the labels of the horizontal axis are below it
)

func newPlot(x, y page.Axis, xTicks []page.Tick, label func(float64) string, unit string) *page.Drawing {
	return page.NewPlot(plotWidth, plotHeight, x, y, xTicks, page.VerticalTicks(y, label), unit)
}

func horizontal(most float64) page.Axis { return page.Axis{Max: most, From: plotLeft, To: plotRight} }

const logRange = 12 // ratio of the greatest to the least value above which an axis is logarithmic

func timeAxis(lo, hi time.Duration) page.Axis {
	hi = max(hi, 1)
	if lo > 0 && hi > logRange*lo {
		return page.Axis{Min: float64(lo) / 1.2, Max: float64(hi) * 1.2, Log: true, From: plotBottom, To: plotTop}
	}
	return page.Axis{Max: float64(hi) * 1.05, From: plotBottom, To: plotTop}
}

func timeLabel(ns float64) string { return Duration(time.Duration(ns)) }

// Curve is a line of percentiles.
type Curve struct {
	Class     string // its color
	Name      string
	Durations *hist.Histogram
}

// CurvePlot returns the percentile curve.
func (r *Run) CurvePlot() *page.Drawing {
	if r.Open() {
		return Curves(Curve{"line-0", "since due", r.Latency}, Curve{"line-1", "since sent", r.Service})
	}
	return Curves(Curve{"line-0", "latency", r.Latency})
}

// Curves returns a plot of percentiles. On its axis, each further nine takes the same width.
func Curves(all ...Curve) *page.Drawing {
	const steps = 40
	last, lo, hi := 0.0, time.Duration(math.MaxInt64), time.Duration(0)
	for _, c := range all {
		last = max(last, page.LastNines(c.Durations.Count()))
		lo, hi = min(lo, c.Durations.Quantile(0)), max(hi, c.Durations.Max())
	}
	x, y := horizontal(last), timeAxis(lo, hi)
	p := newPlot(x, y, page.NinesTicks(x, percentOf), timeLabel, "share of requests within this time")
	for _, c := range all {
		var places []string
		for _, share := range page.CurveShares(c.Durations.Count(), steps) {
			places = append(places, page.Place(x.At(page.Nines(share)), y.At(float64(c.Durations.Quantile(share)))))
		}
		p.Series(c.Class, c.Name, page.Path(places))
		p.Alt += fmt.Sprintf("%s: half within %s, 99 %% within %s. ", c.Name, Duration(c.Durations.Quantile(0.5)),
			Duration(c.Durations.Quantile(0.99)))
	}
	return p
}

const mostSpans = 480 // limits the parts of a drawn timeline to about one per screen column

// span is a second of the timeline, or several together.
type span struct {
	from, to      float64 // seconds
	rate          float64
	p50, p99, max time.Duration // p50 is the mean over the seconds, the others their maximum
	known         bool          // there are latencies
}

// SpanSeconds returns the number of seconds in each span.
func (r *Run) SpanSeconds() int { return (len(r.Timeline) + mostSpans - 1) / mostSpans }

func (r *Run) spans() (all []span) {
	each := r.SpanSeconds()
	for first := 0; first < len(r.Timeline); first += each {
		end := min(first+each, len(r.Timeline))
		s := span{from: float64(first), to: float64(end-1) + r.SecondLength(end-1)}
		var requests, timed float64
		var p50 float64
		for _, second := range r.Timeline[first:end] {
			requests += float64(second.Requests)
			l := &second.Latency
			timed += float64(l.Count)
			p50 += float64(l.Count) * float64(l.P50)
			s.p99, s.max = max(s.p99, l.P99), max(s.max, l.Max)
		}
		s.rate = requests / (s.to - s.from)
		if s.known = timed > 0; s.known {
			s.p50 = time.Duration(p50 / timed)
		}
		all = append(all, s)
	}
	return all
}

// Plots show a run, or an agent, over time. They are nil if there is too little to draw.
type Plots struct {
	Name          string // of the agent
	Rate, Latency *page.Drawing
}

// Plots returns the plots of the run.
func (r *Run) Plots() Plots { return plots(r.Seconds, r)[0] }

// plots returns the plots of runs, whose axes are the same.
func plots(seconds float64, runs ...*Run) (all []Plots) {
	most, lo, hi := 0.0, time.Duration(math.MaxInt64), time.Duration(0)
	for _, r := range runs {
		for _, s := range r.spans() {
			most = max(most, s.rate)
			if s.known {
				lo, hi = min(lo, s.p50), max(hi, s.max)
			}
		}
	}
	x := horizontal(seconds)
	for _, r := range runs {
		all = append(all, Plots{Rate: ratePlot(r.spans(), x, most), Latency: latencyPlot(r.spans(), x, lo, hi)})
	}
	return all
}

func ratePlot(spans []span, x page.Axis, top float64) *page.Drawing {
	if len(spans) < 2 {
		return nil
	}
	y := page.Axis{Max: max(1, top*1.05), From: plotBottom, To: plotTop}
	p := newPlot(x, y, x.Ticks(page.Number), Count, "seconds")
	p.Series("line-0", "requests per second", steps(spans, x, y, func(s span) (float64, bool) { return s.rate, true }))
	byRate := func(a, b span) int { return cmp.Compare(a.rate, b.rate) }
	p.Alt = fmt.Sprintf("Between %s and %s requests per second.", Count(slices.MinFunc(spans, byRate).rate),
		Count(slices.MaxFunc(spans, byRate).rate))
	return p
}

func latencyPlot(spans []span, x page.Axis, lo, hi time.Duration) *page.Drawing {
	if len(spans) < 2 || !slices.ContainsFunc(spans, func(s span) bool { return s.known }) {
		return nil
	}
	y := timeAxis(lo, hi)
	p := newPlot(x, y, x.Ticks(page.Number), timeLabel, "seconds")
	for i, l := range []struct {
		name string
		of   func(span) time.Duration
	}{
		{"50 %", func(s span) time.Duration { return s.p50 }},
		{"99 %", func(s span) time.Duration { return s.p99 }},
		{"longest", func(s span) time.Duration { return s.max }},
	} {
		path := steps(spans, x, y, func(s span) (float64, bool) { return float64(l.of(s)), s.known })
		p.Series(fmt.Sprintf("line-%d", i), l.name, path)
	}
	p.Alt = fmt.Sprintf("From %s to %s.", Duration(lo), Duration(hi))
	return p
}

// steps draws each span as a horizontal line, with gaps where values are unknown.
func steps(spans []span, x, y page.Axis, value func(span) (float64, bool)) string {
	var path strings.Builder
	drawn := false
	for _, s := range spans {
		v, known := value(s)
		if known && drawn {
			fmt.Fprintf(&path, "V%gH%g", y.At(v), x.At(s.to))
		} else if known {
			fmt.Fprintf(&path, "M%g %gH%g", x.At(s.from), y.At(v), x.At(s.to))
		}
		drawn = known
	}
	return path.String()
}
