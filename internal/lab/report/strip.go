package report

import (
	"fmt"
	"strings"

	"github.com/tarehq/tare/internal/lab/timeline"
	"github.com/tarehq/tare/internal/page"
)

// strip is the chart of one case: a stacked bar for each second, with its events above, and the
// memory and the crowd as lines. All lengths are in units of its view box.
type strip struct {
	Case                *timeline.Case
	Width, Height, Foot float64
	Top, Left, Right    float64
	Bars                []stripBar
	Ticks               []page.Tick
	Marks               []stripMark
	Memory, Crowd       string // SVG path data; "" without a crowd
	MemoryTop, CrowdTop string // what the height of the lines means
	Alt                 string
}

// stripBar is one outcome in one second.
type stripBar struct {
	X, Y, Width, Height float64
	Class, Title        string
}

// stripMark is an event at its place.
type stripMark struct {
	X, Y float64
	Text string
	Side string // of its text: start or end
}

const (
	stripWidth  = 1072
	stripLeft   = 8
	stripRight  = 1064
	barsHeight  = 96
	markLine    = 15 // height of an event's text
	footHeight  = 22
	axisSeconds = 2 // between two labels
)

// strip returns the chart of a case.
func (a *Report) strip(c *timeline.Case) *strip {
	total := c.Total()
	if len(total.Seconds) == 0 {
		return nil
	}
	x := page.Axis{Max: a.Measure.Seconds(), From: stripLeft, To: stripRight}
	top := float64(markLine*len(c.Marks)) + 6
	most := 1
	for i := range total.Seconds {
		most = max(most, total.Seconds[i].Sent())
	}
	y := page.Axis{Max: float64(most), From: 0, To: barsHeight}
	ch := &strip{Case: c, Width: stripWidth, Top: top, Foot: top + barsHeight, Left: stripLeft, Right: stripRight}
	ch.Height = ch.Foot + footHeight
	for at := range total.Seconds {
		ch.addBars(at, &total.Seconds[at], x, y)
	}
	for s := 0; s <= int(a.Measure.Seconds()); s += axisSeconds {
		ch.Ticks = append(ch.Ticks, page.Tick{At: x.At(float64(s)), Label: fmt.Sprintf("%d s", s)})
	}
	for i, m := range c.Marks {
		at := stripMark{X: x.At(m.At.Seconds()), Y: float64(markLine*i) + 11, Text: m.Text, Side: "start"}
		if at.X > stripWidth/2 {
			at.Side = "end"
		}
		ch.Marks = append(ch.Marks, at)
	}
	ch.addLines(x, mostMemory(a.Events))
	sum := total.Sum()
	ch.Alt = fmt.Sprintf("%s: %d of %d requests were lost. %s", c.Title, sum.Lost(), sum.Sent(), marksText(c))
	return ch
}

// addBars draws a second: losses stand on top.
func (ch *strip) addBars(at int, s *timeline.Second, x, y page.Axis) {
	const gap = 1.5
	from, to := x.At(float64(at))+gap, x.At(float64(at+1))-gap
	foot := ch.Foot
	for _, o := range timeline.Outcomes() {
		n := s.Outcomes[o]
		if n == 0 || to <= from {
			continue
		}
		const least = 2 // a single loss must be visible
		height := max(least, y.At(float64(n)))
		foot -= height
		ch.Bars = append(ch.Bars, stripBar{from, foot, to - from, height, outcomeClass(o),
			fmt.Sprintf("second %d: %s", at+1, outcomesText(s))})
	}
}

// outcomeClass returns the style of an outcome.
func outcomeClass(o timeline.Outcome) string {
	return "outcome-" + strings.ReplaceAll(string(o), " ", "-")
}

func outcomesText(s *timeline.Second) string {
	var texts []string
	for _, o := range timeline.Outcomes() {
		if n := s.Outcomes[o]; n > 0 {
			texts = append(texts, fmt.Sprintf("%s %d", o, n))
		}
	}
	return strings.Join(texts, ", ") + "; slowest response " + wholeMillis(s.Slowest)
}

// mostMemory returns the highest memory of all cases. Their lines have one scale.
func mostMemory(e *timeline.Events) (bytes int64) {
	for i := range e.Cases {
		_, most := e.Cases[i].Peak()
		bytes = max(bytes, most.Memory)
	}
	return bytes
}

// addLines draws the memory, whose scale ends at top, and the crowd.
func (ch *strip) addLines(x page.Axis, top int64) {
	_, most := ch.Case.Peak()
	if most.Crowd+most.Ended == 0 {
		return
	}
	var memory, crowd []string
	up := func(v, top float64) float64 {
		a := page.Axis{Max: max(top, 1), From: ch.Foot, To: ch.Top}
		return a.At(v)
	}
	for _, s := range ch.Case.Samples {
		at := x.At(s.At.Seconds())
		memory = append(memory, page.Place(at, up(float64(s.Memory), float64(top))))
		crowd = append(crowd, page.Place(at, up(float64(s.Crowd), float64(most.Crowd))))
	}
	ch.Memory, ch.Crowd = page.Path(memory), page.Path(crowd)
	ch.MemoryTop = "memory, up to " + megabytes(most.Memory)
	ch.CrowdTop = fmt.Sprintf("slow clients, up to %d", most.Crowd)
}

// outcomeLegend returns the legend of the outcomes.
func (a *Report) outcomeLegend() (all []mark) {
	for _, o := range timeline.Outcomes() {
		for i := range a.Events.Cases {
			total := a.Events.Cases[i].Total()
			sum := total.Sum()
			if sum.Outcomes[o] > 0 {
				all = append(all, mark{Class: outcomeClass(o), Text: string(o)})
				break
			}
		}
	}
	return all
}
