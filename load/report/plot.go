package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/page"
)

// plot is a picture of lines, laid out and ready for the template. All lengths are in the
// units of its view box. Colours are the page's, by class.
type plot struct {
	Width, Height            float64
	Left, Right, Top, Bottom float64 // where the lines may be
	X, Y                     []page.Tick
	Unit                     string // of the horizontal axis
	Lines                    []line
	Alt                      string // the picture in words
}

// line is one of a plot's.
type line struct {
	Class string
	Text  string // in the legend
	Path  string // as SVG has it
}

// Geometry of a plot. Its numbers are larger on a narrow screen, which the margins allow for.
const (
	plotWidth  = 640
	plotHeight = 226
	plotLeft   = 62 // before it are the numbers of the vertical axis
	plotRight  = 612
	plotTop    = 8
	plotBottom = 186 // below it those of the horizontal one
)

// mostTicks is how many numbers there is room for on the vertical axis.
const mostTicks = 6

// verticalTicks are the numbers of a vertical axis. Where not all have room powers of ten do.
func verticalTicks(y page.Axis, format func(float64) string) []page.Tick {
	all := y.Ticks(format)
	if len(all) <= mostTicks {
		return all
	}
	powers := func(v float64) string {
		if p := math.Round(math.Log10(v)); math.Abs(v-math.Pow(10, p)) < v/1e6 {
			return format(v)
		}
		return ""
	}
	return slices.DeleteFunc(y.Ticks(powers), func(t page.Tick) bool { return t.Label == "" })
}

// newPlot begins a plot with its axes.
func newPlot(x, y *page.Axis, unit string) *plot {
	x.From, x.To = plotLeft, plotRight
	y.From, y.To = plotBottom, plotTop
	return &plot{Width: plotWidth, Height: plotHeight, Left: plotLeft, Right: plotRight, Top: plotTop, Bottom: plotBottom, Unit: unit}
}

// logRange is how many times the least the greatest value is before an axis is logarithmic.
const logRange = 12

// timeAxis is an axis for times from lo to hi, in nanoseconds.
func timeAxis(lo, hi time.Duration) page.Axis {
	hi = max(hi, 1)
	if lo > 0 && hi > logRange*lo {
		return page.Axis{Min: float64(lo) / 1.2, Max: float64(hi) * 1.2, Log: true}
	}
	return page.Axis{Min: 0, Max: float64(hi) * 1.05}
}

func timeLabel(ns float64) string { return Duration(time.Duration(ns)) }

// CurvePlot is the percentile curve, on an axis on which each nine is as far as the last.
func (r *Run) CurvePlot() *plot {
	const steps = 40
	series := []Times{{"latency", r.Latency}}
	if r.open() {
		series = []Times{{"since due", r.Latency}, {"since sent", r.Service}}
	}
	last := lastNines(r.Latency.Count())
	lo, hi := time.Duration(math.MaxInt64), r.Latency.Max()
	for _, s := range series {
		lo = min(lo, s.Quantile(0))
	}
	x, y := page.Axis{Min: 0, Max: last}, timeAxis(lo, hi)
	p := newPlot(&x, &y, "share of requests that took no longer")
	p.Y = verticalTicks(y, timeLabel)
	for _, share := range []float64{0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999, 0.9999999} {
		if n := nines(share); n <= last {
			p.X = append(p.X, page.Tick{At: x.At(n), Label: Percent(share)})
		}
	}
	for i, s := range series {
		var path strings.Builder
		for j, point := range curve(s.Histogram, steps) {
			fmt.Fprintf(&path, "%c%g %g", "ML"[min(j, 1)], x.At(nines(point.share)), y.At(float64(point.time)))
		}
		p.Lines = append(p.Lines, line{fmt.Sprintf("line-%d", i), s.Name, path.String()})
		p.Alt += fmt.Sprintf("%s: half within %s, 99 %% within %s. ", s.Name, Duration(s.Quantile(0.5)), Duration(s.Quantile(0.99)))
	}
	return p
}

// mostSpans bounds what is drawn of a timeline: about a column of the screen each.
const mostSpans = 480

// span is a second of the timeline, or several together.
type span struct {
	from, to      float64 // seconds
	rate          float64
	p50, p99, max time.Duration // p50 is the mean of the seconds', the others their greatest
	known         bool          // there are times
}

// SpanSeconds is how many seconds are drawn together.
func (r *Run) SpanSeconds() int { return (len(r.Timeline) + mostSpans - 1) / mostSpans }

// spans are the timeline as it is drawn.
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

// RatePlot is the rate of each second; nil if there is but one.
func (r *Run) RatePlot() *plot {
	if len(r.Timeline) < 2 {
		return nil
	}
	spans := r.spans()
	least, most := math.Inf(1), 0.0
	for _, s := range spans {
		least, most = min(least, s.rate), max(most, s.rate)
	}
	x, y := page.Axis{Min: 0, Max: r.Seconds}, page.Axis{Min: 0, Max: max(1, most*1.05)}
	p := newPlot(&x, &y, "seconds")
	p.X, p.Y = x.Ticks(page.Number), verticalTicks(y, Count)
	p.Lines = []line{{"line-0", "requests per second", steps(spans, x, y, func(s span) (float64, bool) { return s.rate, true })}}
	p.Alt = fmt.Sprintf("Between %s and %s requests per second.", Count(least), Count(most))
	return p
}

// LatencyPlot is the latency of each second; nil if there is but one, or none has any.
func (r *Run) LatencyPlot() *plot {
	spans := r.spans()
	lo, hi := time.Duration(math.MaxInt64), time.Duration(0)
	for _, s := range spans {
		if s.known {
			lo, hi = min(lo, s.p50), max(hi, s.max)
		}
	}
	if len(spans) < 2 || hi == 0 {
		return nil
	}
	x, y := page.Axis{Min: 0, Max: r.Seconds}, timeAxis(lo, hi)
	p := newPlot(&x, &y, "seconds")
	p.X, p.Y = x.Ticks(page.Number), verticalTicks(y, timeLabel)
	for i, l := range []struct {
		name string
		of   func(span) time.Duration
	}{
		{"50 %", func(s span) time.Duration { return s.p50 }},
		{"99 %", func(s span) time.Duration { return s.p99 }},
		{"longest", func(s span) time.Duration { return s.max }},
	} {
		path := steps(spans, x, y, func(s span) (float64, bool) { return float64(l.of(s)), s.known })
		p.Lines = append(p.Lines, line{fmt.Sprintf("line-%d", i), l.name, path})
	}
	p.Alt = fmt.Sprintf("From %s to %s.", Duration(lo), Duration(hi))
	return p
}

// steps draws each span as a level line, and a gap where nothing is known.
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
