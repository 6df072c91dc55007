package report

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/page"
)

// Geometry of a chart of rows.
const (
	chartWidth  = 960
	chartLeft   = 190 // labels are left of it
	chartMargin = 90  // on the right, for numbers after bars
	chartRight  = chartWidth - chartMargin
	rowHeight   = 30
	barHeight   = 18
	axisHeight  = 40
)

// weightChart shows the CPU time of a request by role and by user and system time, in a row for
// each contender. The intervals are those of the table's ratios, scaled to the bar.
func (t *Table) weightChart() *page.Drawing {
	perRatio := func(row *analyze.Row, ratio float64) float64 { return row.WeightUs.Mid * ratio / row.Ratio.Mid }
	most, rows := 0.0, t.Measured()
	for _, row := range rows {
		most = max(most, row.WeightUs.Mid, finite(perRatio(row, row.Ratio.Hi)))
	}
	axis := page.Axis{Max: max(most*1.02, 1e-3), From: chartLeft, To: chartRight}
	foot := float64(len(rows)) * rowHeight
	d := &page.Drawing{Class: "rows", Width: chartWidth, Height: foot + axisHeight}
	d.XTicks(axis.Ticks(page.Number), 0, foot)
	d.Text("unit", "", "µs of CPU time per request", "end", chartRight, foot+34)
	used := make(map[string]bool) // classes of bars
	for i, row := range rows {
		y := float64(i)*rowHeight + rowHeight/2
		d.Group(string(row.Kind), "", func() {
			d.Text("label", described(row.Entrant), row.Title, "end", chartLeft-12, y+4.5)
			at := 0.0
			for _, p := range row.Parts {
				for _, piece := range t.pieces(p) {
					used[piece.class] = true
					d.Rect(piece.class, fmt.Sprintf("%s: %s: %s", row.Title, piece.name, micros(piece.us)), axis.At(at),
						y-barHeight/2, axis.At(at+piece.us)-axis.At(at), barHeight)
					at += piece.us
				}
			}
			end := row.WeightUs.Mid
			if row.Ratio.Known() && row.Kind != sample.Control {
				end = perRatio(row, row.Ratio.Hi)
				d.Line("whisker", fmt.Sprintf("%s: %s times %s", row.Title, intervalText(row.Ratio.Interval),
					t.Row(sample.Control).Title), axis.At(perRatio(row, row.Ratio.Lo)), y, axis.At(end), y)
			}
			d.Text("", "", micros(row.WeightUs.Mid), "start", axis.At(end)+10, y+4.5)
		})
		d.Alt += fmt.Sprintf("%s: %s. ", row.Title, micros(row.WeightUs.Mid))
	}
	for _, role := range sample.Roles() {
		for _, piece := range t.pieces(analyze.Part{Role: role}) {
			if used[piece.class] {
				d.Legend = append(d.Legend, page.Key{Class: piece.class, Text: piece.name})
			}
		}
	}
	return d
}

type piece struct {
	class, name string
	us          float64
}

// pieces separates user and system time at saturation. At a fixed rate processors are mostly idle,
// and a trial has too few clock ticks to separate them.
func (t *Table) pieces(p analyze.Part) []piece {
	if !t.Saturated() {
		return []piece{{p.Role + "-user", p.Role, p.Us()}}
	}
	return []piece{{p.Role + "-user", p.Role + ", user", p.UserUs}, {p.Role + "-sys", p.Role + ", system", p.SysUs}}
}

func ms(d time.Duration) float64 { return d.Seconds() * 1e3 }

func finite(v float64) float64 {
	if math.IsInf(v, 0) || math.IsNaN(v) {
		return 0
	}
	return v
}

// Geometry of the chart of a case.
const (
	stripWidth  = 1072
	stripLeft   = 8
	stripRight  = 1064
	barsHeight  = 96
	markLine    = 15 // height of an event's text
	footHeight  = 22
	axisSeconds = 2 // between two labels
)

// strip draws a case: a stacked bar for each second, with its events above, and the memory and the
// crowd as lines.
func (a *Report) strip(l *caseLine) *page.Drawing {
	x := page.Axis{Max: a.Measure.Seconds(), From: stripLeft, To: stripRight}
	top := float64(markLine*len(l.Marks)) + 6
	foot := top + barsHeight
	d := &page.Drawing{Width: stripWidth, Height: foot + footHeight, Alt: fmt.Sprintf(
		"%s: %d of %d requests were lost. %s", l.Title, l.sum.Lost(), l.sum.Sent(), marksText(l.Case))}
	var ticks []page.Tick
	for s := 0; s <= int(a.Measure.Seconds()); s += axisSeconds {
		ticks = append(ticks, page.Tick{At: x.At(float64(s)), Label: fmt.Sprintf("%d s", s)})
	}
	d.XTicks(ticks, top, foot)
	most := 1
	for i := range l.Traffic.Seconds {
		most = max(most, l.Traffic.Seconds[i].Sent())
	}
	for at := range l.Traffic.Seconds {
		drawSecond(d, at, &l.Traffic.Seconds[at], x, page.Axis{Max: float64(most), To: barsHeight}, foot)
	}
	a.drawCrowd(d, l, x, top, foot)
	for i, m := range l.Marks {
		at, y, anchor, gap := x.At(m.At.Seconds()), float64(markLine*i)+11, "start", 4.0
		if at > stripWidth/2 {
			anchor, gap = "end", -4
		}
		d.Group("event", "", func() {
			d.Line("", "", at, y, at, foot)
			d.Text("", "", m.Text, anchor, at+gap, y)
		})
	}
	return d
}

// drawSecond draws a second: losses stand on top.
func drawSecond(d *page.Drawing, at int, s *sample.Second, x, y page.Axis, foot float64) {
	const gap = 1.5
	from, to := x.At(float64(at))+gap, x.At(float64(at+1))-gap
	for _, o := range sample.Outcomes() {
		if n := s.Outcomes[o]; n > 0 && to > from {
			const least = 2 // a single loss must be visible
			height := max(least, y.At(float64(n)))
			foot -= height
			d.Rect(outcomeClass(o), fmt.Sprintf("second %d: %s", at+1, outcomesText(s)), from, foot, to-from, height)
		}
	}
}

func outcomeClass(o sample.Outcome) string {
	return "outcome-" + strings.ReplaceAll(string(o), " ", "-")
}

func outcomesText(s *sample.Second) string {
	var texts []string
	for _, o := range sample.Outcomes() {
		if n := s.Outcomes[o]; n > 0 {
			texts = append(texts, fmt.Sprintf("%s %d", o, n))
		}
	}
	return strings.Join(texts, ", ") + "; slowest response " + wholeMillis(s.Slowest)
}

func (a *Report) drawCrowd(d *page.Drawing, l *caseLine, x page.Axis, top, foot float64) {
	var all int64
	for i := range a.Events.Cases {
		_, most := a.Events.Cases[i].Peak()
		all = max(all, most.Memory)
	}
	_, most := l.Peak()
	if most.Crowd+most.Ended == 0 {
		return
	}
	var memory, crowd []string
	up := func(v, highest float64) float64 { return page.Axis{Max: max(highest, 1), From: foot, To: top}.At(v) }
	for _, s := range l.Samples {
		at := x.At(s.At.Seconds())
		memory = append(memory, page.Place(at, up(float64(s.Memory), float64(all))))
		crowd = append(crowd, page.Place(at, up(float64(s.Crowd), float64(most.Crowd))))
	}
	memoryTop := "memory, up to " + megabytes(most.Memory)
	crowdTop := fmt.Sprintf("slow clients, up to %d", most.Crowd)
	d.Path("memory", memoryTop, page.Path(memory))
	d.Path("crowd", crowdTop, page.Path(crowd))
	d.Text("unit", "", fmt.Sprintf("line: %s; dashed: %s", memoryTop, crowdTop), "end", stripRight, top-8)
}

func outcomeLegend(lines []caseLine) (all []page.Key) {
	for _, o := range sample.Outcomes() {
		for i := range lines {
			if lines[i].sum.Outcomes[o] > 0 {
				all = append(all, page.Key{Class: outcomeClass(o), Text: string(o)})
				break
			}
		}
	}
	return all
}
