package report

import (
	"fmt"
	"math"
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

// logRange is the ratio of the greatest to the least value above which an axis is logarithmic.
const logRange = 12

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

// mostSpans limits the parts of a drawn timeline to about one per screen column.
const mostSpans = 480

// span is a second of the timeline, or several together.
type span struct {
	from, to      float64 // seconds
	rate          float64
	p50, p99, max time.Duration // p50 is the mean over the seconds, the others their maximum
	known         bool          // there are latencies
}

// SpanSeconds returns the number of seconds in each span.
func (r *Run) SpanSeconds() int { return (len(r.Timeline) + mostSpans - 1) / mostSpans }

// spans returns the timeline in the parts that are drawn.
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

// RatePlot returns the rate of each second, or nil if there is only one.
func (r *Run) RatePlot() *page.Drawing {
	if len(r.Timeline) < 2 {
		return nil
	}
	_, most := r.rateRange()
	return r.ratePlot(r.Seconds, most)
}

// rateRange returns the lowest and the highest rate of the spans.
func (r *Run) rateRange() (least, most float64) {
	least = math.Inf(1)
	for _, s := range r.spans() {
		least, most = min(least, s.rate), max(most, s.rate)
	}
	return least, most
}

// ratePlot returns the rate of each second on axes up to the given values.
func (r *Run) ratePlot(seconds, top float64) *page.Drawing {
	if len(r.Timeline) < 2 {
		return nil
	}
	spans := r.spans()
	least, most := r.rateRange()
	x, y := horizontal(seconds), page.Axis{Max: max(1, top*1.05), From: plotBottom, To: plotTop}
	p := newPlot(x, y, x.Ticks(page.Number), Count, "seconds")
	p.Series("line-0", "requests per second", steps(spans, x, y, func(s span) (float64, bool) { return s.rate, true }))
	p.Alt = fmt.Sprintf("Between %s and %s requests per second.", Count(least), Count(most))
	return p
}

// LatencyPlot returns the latency of each second, or nil if there is only one or none has
// latencies.
func (r *Run) LatencyPlot() *page.Drawing {
	lo, hi := r.latencyRange()
	return r.latencyPlot(r.Seconds, lo, hi)
}

// latencyRange returns the lowest median and the longest latency of the spans. Without latencies,
// the latter is 0.
func (r *Run) latencyRange() (lo, hi time.Duration) {
	lo = time.Duration(math.MaxInt64)
	for _, s := range r.spans() {
		if s.known {
			lo, hi = min(lo, s.p50), max(hi, s.max)
		}
	}
	return lo, hi
}

// latencyPlot returns the latency of each second on axes with the given ranges.
func (r *Run) latencyPlot(seconds float64, lo, hi time.Duration) *page.Drawing {
	spans := r.spans()
	if _, longest := r.latencyRange(); len(spans) < 2 || longest == 0 {
		return nil
	}
	x, y := horizontal(seconds), timeAxis(lo, hi)
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
