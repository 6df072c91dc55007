package wrk

import (
	"math"
	"sort"

	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/hist"
)

type bar struct{ value, count int64 }

// distribution holds wrk's samples: measured values and, with an interval, the phantoms that wrk
// adds to correct for coordinated omission. For each value of at least two intervals, wrk assumes
// that one request per interval was due but not sent. It adds latencies that are one, two, three
// and more intervals shorter, down to one interval. Formulas count and sum these phantoms, because
// there may be millions.
type distribution struct {
	bars     []bar // ascending
	interval int64 // between phantoms; 0 if there are none
}

func (d *distribution) phantoms(value int64) int64 {
	if d.interval < 1 || value < 2*d.interval {
		return 0
	}
	return (value-1)/d.interval - 1
}

func (d *distribution) count() (n int64) {
	for _, b := range d.bars {
		n += b.count * (1 + d.phantoms(b.value))
	}
	return n
}

func (d *distribution) max() int64 {
	if len(d.bars) == 0 {
		return 0
	}
	return d.bars[len(d.bars)-1].value
}

func (d *distribution) mean() float64 {
	var n, sum float64
	for _, b := range d.bars {
		k, i := float64(d.phantoms(b.value)), float64(d.interval)
		n += float64(b.count) * (1 + k)
		sum += float64(b.count) * ((1+k)*float64(b.value) - i*k*(k+1)/2)
	}
	if n == 0 {
		return 0
	}
	return sum / n
}

func (d *distribution) stdev(mean float64) float64 {
	n := float64(d.count())
	if n < 2 {
		return 0
	}
	var sum float64
	for _, b := range d.bars {
		off := float64(b.value) - mean
		k, i := float64(d.phantoms(b.value)), float64(d.interval)
		squares := (1+k)*off*off - off*i*k*(k+1) + i*i*k*(k+1)*(2*k+1)/6
		sum += float64(b.count) * squares
	}
	return math.Sqrt(max(sum, 0) / (n - 1))
}

func (d *distribution) upTo(x int64) (n int64) {
	for _, b := range d.bars {
		k := d.phantoms(b.value)
		if b.value <= x {
			n += b.count * (1 + k)
		} else if k > 0 {
			nearest := (b.value - x + d.interval - 1) / d.interval // first phantom not above x
			n += b.count * max(0, k-nearest+1)
		}
	}
	return n
}

// within returns the percentage of samples within one standard deviation of the mean; NaN if there
// are none.
func (d *distribution) within(mean, stdev float64) float64 {
	inside := d.upTo(int64(math.Floor(mean+stdev))) - d.upTo(int64(math.Ceil(mean-stdev))-1)
	return float64(inside) / float64(d.count()) * 100
}

// percentile returns the lowest value that p percent of the samples do not exceed, by wrk's rank.
func (d *distribution) percentile(p float64) int64 {
	rank := int64(math.Round(p/100*float64(d.count()) + 0.5))
	longest := int(d.max())
	x := sort.Search(longest+1, func(x int) bool { return d.upTo(int64(x)) >= rank })
	if x > longest {
		return 0
	}
	return int64(x)
}

// latencies returns a run's latencies in microseconds, without those above the timeout. For wrk 1.0
// it omits none and adds no phantoms.
func (c *Command) latencies(r *load.Result) (d distribution) {
	late := c.countTimeouts(r.Service)
	for value, count := range r.Service.All() {
		us := value.Microseconds()
		if us > c.timeout.Microseconds() && !c.isV1 {
			break
		}
		if n := len(d.bars); n > 0 && d.bars[n-1].value == us {
			d.bars[n-1].count += count
		} else {
			d.bars = append(d.bars, bar{us, count})
		}
	}
	if n := len(d.bars); n > 0 && (late == 0 || c.isV1) {
		d.bars[n-1].value = r.Service.Max().Microseconds() // exact, unlike the histogram's
	}
	if each := r.Requests / c.connections; each > 0 && !c.isV1 {
		d.interval = runtime(r) / int64(each)
	}
	return d
}

func (c *Command) countTimeouts(h *hist.Histogram) (n uint64) {
	for value, count := range h.All() {
		if value.Microseconds() > c.timeout.Microseconds() {
			n += uint64(count)
		}
	}
	return n
}
