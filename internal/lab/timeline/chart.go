package timeline

import (
	"fmt"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/page"
)

// Chart is the strip of one case: a stacked bar for each second, with its events above, and the
// memory and the crowd as lines. All lengths are in units of its view box.
type Chart struct {
	Case                *Case
	Width, Height, Foot float64
	Top, Left, Right    float64
	Bars                []Bar
	Ticks               []page.Tick
	Marks               []MarkAt
	Memory, Crowd       string // SVG path data; "" without a crowd
	MemoryTop, CrowdTop string // what the height of the lines means
	Alt                 string
}

// Bar is one outcome in one second.
type Bar struct {
	X, Y, Width, Height float64
	Class, Title        string
}

// MarkAt is an event at its place.
type MarkAt struct {
	X, Y float64
	Text string
	Side string // of its text: start or end
}

const (
	chartWidth  = 1072
	chartLeft   = 8
	chartRight  = 1064
	barsHeight  = 96
	markLine    = 15 // height of an event's text
	footHeight  = 22
	axisSeconds = 2 // between two labels
)

// Chart returns the strip of a case.
func (r *Run) Chart(c *Case) *Chart {
	total := c.Total()
	if len(total.Seconds) == 0 {
		return nil
	}
	x := page.Axis{Max: r.Length.Seconds(), From: chartLeft, To: chartRight}
	top := float64(markLine*len(c.Marks)) + 6
	most := 1
	for i := range total.Seconds {
		most = max(most, total.Seconds[i].Sent())
	}
	y := page.Axis{Max: float64(most), From: 0, To: barsHeight}
	ch := &Chart{Case: c, Width: chartWidth, Top: top, Foot: top + barsHeight, Left: chartLeft, Right: chartRight}
	ch.Height = ch.Foot + footHeight
	for at := range total.Seconds {
		ch.addBars(at, &total.Seconds[at], x, y)
	}
	for s := 0; s <= int(r.Length.Seconds()); s += axisSeconds {
		ch.Ticks = append(ch.Ticks, page.Tick{At: x.At(float64(s)), Label: fmt.Sprintf("%d s", s)})
	}
	for i, m := range c.Marks {
		at := MarkAt{X: x.At(m.At.Seconds()), Y: float64(markLine*i) + 11, Text: m.Text, Side: "start"}
		if at.X > chartWidth/2 {
			at.Side = "end"
		}
		ch.Marks = append(ch.Marks, at)
	}
	ch.addLines(x, r.mostMemory())
	sum := total.Sum()
	ch.Alt = fmt.Sprintf("%s: %d of %d requests were lost. %s", c.Title, sum.Lost(), sum.Sent(), c.events())
	return ch
}

// addBars draws a second: losses stand on top.
func (ch *Chart) addBars(at int, s *Second, x, y page.Axis) {
	const gap = 1.5
	from, to := x.At(float64(at))+gap, x.At(float64(at+1))-gap
	foot := ch.Foot
	for _, o := range outcomes() {
		n := s.Outcomes[o]
		if n == 0 || to <= from {
			continue
		}
		const least = 2 // a single loss must be visible
		height := max(least, y.At(float64(n)))
		foot -= height
		ch.Bars = append(ch.Bars, Bar{from, foot, to - from, height, class(o),
			fmt.Sprintf("second %d: %s", at+1, outcomesText(s))})
	}
}

// class returns the style of an outcome.
func class(o Outcome) string { return "outcome-" + strings.ReplaceAll(string(o), " ", "-") }

func outcomesText(s *Second) string {
	var texts []string
	for _, o := range outcomes() {
		if n := s.Outcomes[o]; n > 0 {
			texts = append(texts, fmt.Sprintf("%s %d", o, n))
		}
	}
	return strings.Join(texts, ", ") + "; slowest response " + millis(s.Slowest)
}

// mostMemory returns the highest memory of all cases. Their lines have one scale.
func (r *Run) mostMemory() (bytes int64) {
	for i := range r.Cases {
		_, most := r.Cases[i].Peak()
		bytes = max(bytes, most.Memory)
	}
	return bytes
}

// addLines draws the memory, whose scale ends at top, and the crowd.
func (ch *Chart) addLines(x page.Axis, top int64) {
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

// legend is an entry of the page's legend.
type legend struct{ Class, Text string }

func (r *Run) legends() (all []legend) {
	for _, o := range outcomes() {
		for i := range r.Cases {
			total := r.Cases[i].Total()
			sum := total.Sum()
			if sum.Outcomes[o] > 0 {
				all = append(all, legend{class(o), string(o)})
				break
			}
		}
	}
	return all
}

// lasted returns the length of the run.
func (r *Run) lasted() string {
	return time.Duration(r.Seconds * float64(time.Second)).Round(time.Second).String()
}
