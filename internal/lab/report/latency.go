package report

import (
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/tarehq/tare/internal/lab/analyze"
	"github.com/tarehq/tare/internal/page"
)

const (
	// curveSteps is the number of points of a percentile curve for each nine.
	curveSteps = 20
	// fewBeyond is the number of requests that must lie beyond the end of a curve. Fewer are
	// chance.
	fewBeyond = 10
	// firstShare is where curves begin, because the fastest requests are chance.
	firstShare = 0.1
)

// percentile is a share of a contender's requests and the time within which they received
// responses.
type percentile struct {
	share float64
	time  time.Duration
}

// percentiles returns the percentiles that a row has enough requests for.
func percentiles(r *analyze.Row) (all []percentile) {
	for _, share := range page.Shares(r.Latency.Count() / fewBeyond) {
		all = append(all, percentile{share, r.Latency.Quantile(share)})
	}
	return all
}

// LatencyPlot draws the percentile curve of each contender, on an axis on which all nines are
// equally far apart.
func (a *Report) LatencyPlot(t *Table) *page.Plot {
	rows := t.Measured()
	x, lo, hi := page.Axis{Min: page.Nines(firstShare)}, math.Inf(1), 0.0
	for _, row := range rows {
		all := percentiles(row)
		last := all[len(all)-1]
		x.Max = math.Max(x.Max, page.Nines(last.share))
		lo, hi = math.Min(lo, ms(row.Latency.Quantile(firstShare))), math.Max(hi, ms(last.time))
	}
	y := page.Around(lo, hi)
	p := newCurves(&x, &y, rows)
	p.X, p.Y = page.NinesTicks(x, percentText), page.VerticalTicks(y, page.Number)
	p.Unit, p.Up = "share of requests with a response within that time", "ms"
	for _, row := range rows {
		var spots []page.Spot
		for _, q := range percentiles(row) {
			spots = append(spots, page.Spot{X: x.At(page.Nines(q.share)), Y: y.At(ms(q.time)),
				Title: fmt.Sprintf("%s: %s of requests within %s", row.Title, percentText(q.share), millis(q.time))})
		}
		p.Lines = append(p.Lines, page.Line{Class: a.curveClass(row.Entrant), Text: row.Title,
			Title: described(row.Entrant), Path: page.Path(percentilePath(row, x, y)), Spots: spots})
		p.Alt += fmt.Sprintf("%s: half within %s, 99 %% within %s. ", row.Title, millis(row.Latency.Quantile(0.5)),
			millis(row.Latency.Quantile(0.99)))
	}
	p.NameLines()
	return p
}

// percentilePath returns the points of a row's curve.
func percentilePath(r *analyze.Row, x, y page.Axis) (places []string) {
	all := percentiles(r)
	last := all[len(all)-1]
	for _, share := range page.CurveShares(r.Latency.Count()/fewBeyond, curveSteps) {
		if share >= firstShare && share < last.share {
			places = append(places, page.Place(x.At(page.Nines(share)), y.At(ms(r.Latency.Quantile(share)))))
		}
	}
	return append(places, page.Place(x.At(page.Nines(last.share)), y.At(ms(last.time))))
}

// LatencyNote describes how latency is measured.
func (t *Table) LatencyNote() string {
	const tail = " A curve begins at a tenth of the requests and ends where fewer than ten lie beyond; point at one to see it alone."
	if t.Saturated() {
		return fmt.Sprintf("Time from sending a request to the last byte of its response, with %s at all times on each of %d connections. "+
			"In such a closed loop latency is their number divided by the rate: it shows the length of the queue, not the time of a single request.",
			streamsText(t.Scenario.Streams), t.Connections) + tail
	}
	return fmt.Sprintf("Time from when a request was due to the last byte of its response. Requests are due at %.0f per second, whether or not earlier ones have ended, "+
		"so the time that a request waits to be sent is included.", t.Rate) + tail
}

func streamsText(n int) string {
	if n > 1 {
		return fmt.Sprintf("%d requests", n)
	}
	return "one request"
}

// percentText formats a share with as many digits as it needs.
func percentText(share float64) string {
	return strconv.FormatFloat(math.Round(1e9*share)/1e7, 'f', -1, 64) + " %"
}
