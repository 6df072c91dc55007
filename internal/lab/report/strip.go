package report

import (
	"fmt"
	"strings"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/page"
)

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
	for i := range l.total.Seconds {
		most = max(most, l.total.Seconds[i].Sent())
	}
	for at := range l.total.Seconds {
		drawSecond(d, at, &l.total.Seconds[at], x, page.Axis{Max: float64(most), To: barsHeight}, foot)
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

// drawCrowd draws the memory, whose scale is that of all cases, and the crowd.
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
