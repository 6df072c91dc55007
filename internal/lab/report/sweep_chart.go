package report

import (
	"fmt"
	"math"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/page"
	loadreport "github.com/tarehq/tare/load/report"
)

// WeightPlot draws the CPU time of a request along the axis.
func (s *sweep) WeightPlot() *page.Plot {
	return s.plot("µs of CPU time per request", func(p *analyze.SweepPoint) analyze.Range { return p.WeightUs }, micros)
}

// RatePlot draws the request rate along the axis.
func (s *sweep) RatePlot() *page.Plot {
	return s.plot("requests per second", func(p *analyze.SweepPoint) analyze.Range { return p.PerSecond },
		func(v float64) string { return loadreport.Count(v) + "/s" })
}

// plot draws one figure of all contenders, with the range of the trials at each value.
func (s *sweep) plot(up string, of func(*analyze.SweepPoint) analyze.Range, text func(float64) string) *page.Plot {
	rows := make([]*analyze.Row, len(s.Lines))
	most := 0.0
	for i := range s.Lines {
		rows[i] = &analyze.Row{Entrant: s.Lines[i].Entrant}
		for j := range s.Lines[i].Points {
			most = math.Max(most, of(&s.Lines[i].Points[j]).Hi)
		}
	}
	x, places := s.places()
	y := page.Axis{Max: math.Max(most*1.05, 1e-3)}
	p := newCurves(&x, &y, rows)
	p.Unit, p.Up = s.unit(), up
	p.Y = page.VerticalTicks(y, loadreport.Count)
	for i, place := range places {
		p.X = append(p.X, page.Tick{At: x.At(place), Label: s.Labels[i]})
	}
	for i := range s.Lines {
		line := &s.Lines[i]
		var spots []page.Spot
		for j := range line.Points {
			point := &line.Points[j]
			if point.Trials == 0 {
				continue
			}
			r := of(point)
			title := fmt.Sprintf("%s, %s %s: %s; %s from %s to %s", line.Title, s.unit(), point.Label, text(r.Mid),
				sample.BlocksText(point.Trials), text(r.Lo), text(r.Hi))
			spots = append(spots, page.Spot{X: x.At(places[j]), Y: y.At(r.Mid), Lo: y.At(r.Lo), Hi: y.At(r.Hi),
				Title: title})
			p.Alt += title + ". "
		}
		p.Lines = append(p.Lines, s.report.curve(line.Entrant, spots))
	}
	p.NameLines()
	return p
}

// places returns the horizontal axis and the positions of the conditions. Connections are on a
// logarithmic axis, other values are equally far apart.
func (s *sweep) places() (x page.Axis, places []float64) {
	for i, c := range s.Conditions {
		place := float64(i)
		if s.Axis == sample.Connections {
			place = float64(c.Connections)
		}
		places = append(places, place)
	}
	x = page.Axis{Min: places[0], Max: places[len(places)-1], Log: s.Axis == sample.Connections}
	if len(places) == 1 {
		x.Max *= 2
		x.Max++
	}
	return x, places
}

func (s *sweep) unit() string {
	switch s.Axis {
	case sample.GOMAXPROCS:
		return "GOMAXPROCS or processes"
	case sample.Workers:
		return "workers of nginx"
	}
	return "connections"
}
