package compare

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/tarehq/tare/lab/stat"
)

// resamples is how often the seconds of both sides are drawn anew. The bounds of an interval
// then differ by a few hundredths of its width from one seed to the next.
const resamples = 1000

// bootstrap returns, for each figure, by which factors the ratio of b to a may be off: the
// interval that has stat.Confidence around 1. It draws blocks of seconds that follow each
// other, since a busy second is often followed by another (Künsch, The jackknife and the
// bootstrap for general stationary observations, 1989); of a side with several runs, runs
// first. Equal input gives equal bounds. It draws so many times.
func bootstrap(a, b *series, all []figure, times int) []stat.Interval {
	random := rand.New(rand.NewPCG(1, 2))
	drawnA, drawnB := newDrawing(a), newDrawing(b)
	logs := make([][]float64, len(all))
	for range times {
		sumA, sumB := drawnA.draw(random), drawnB.draw(random)
		for i, f := range all {
			if f.by != nil {
				logs[i] = append(logs[i], math.Log(f.by(sumB)/f.by(sumA)))
			}
		}
	}
	wide := widening(drawnA, drawnB)
	intervals := make([]stat.Interval, len(all))
	for i := range all {
		intervals[i] = spread(logs[i], wide)
		if !a.known || !b.known {
			if name := all[i].name; name != rateName && name != errorsName {
				intervals[i] = none()
			}
		}
	}
	return intervals
}

// spread returns the factors between which stat.Confidence of the ratios, given as logarithms,
// lie around their middle, drawn wider.
func spread(logs []float64, wide float64) stat.Interval {
	if len(logs) == 0 || slices.ContainsFunc(logs, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }) {
		return none()
	}
	slices.Sort(logs)
	at := func(q float64) float64 { return logs[int(q*float64(len(logs)-1)+0.5)] }
	const tail = (1 - stat.Confidence) / 2
	middle := at(0.5)
	return stat.Interval{Lo: math.Exp(wide * (at(tail) - middle)), Mid: 1, Hi: math.Exp(wide * (at(1-tail) - middle))}
}

// drawing draws seconds of a side's runs.
type drawing struct {
	*series
	sum   *sum
	block []int // how many seconds of each run are drawn together
}

func newDrawing(s *series) *drawing {
	d := &drawing{series: s, sum: newSum(s)}
	for _, run := range s.runs {
		d.block = append(d.block, blockLength(len(run)))
	}
	return d
}

// blockLength is how many of n seconds are drawn together: the root, so that both blocks and
// their number grow with n. A longer block would serve seconds that depend on each other for
// longer, and leave fewer of them.
func blockLength(n int) int { return int(math.Round(math.Sqrt(float64(n)))) }

// draw returns the sum of as many seconds as there are, drawn at random.
func (d *drawing) draw(random *rand.Rand) *sum {
	d.sum.reset()
	for i := range d.runs {
		if len(d.runs) > 1 {
			i = random.IntN(len(d.runs))
		}
		run, block := d.runs[i], d.block[i]
		for left := len(run); left > 0; left -= block {
			from := random.IntN(len(run) - block + 1)
			for j := range min(block, left) {
				d.sum.add(&run[from+j])
			}
		}
	}
	return d.sum
}

// widening makes up for what a bootstrap of a few blocks lacks: its variance is too small, as
// that of a sample divided by n instead of n-1, and its bounds are a normal distribution's
// instead of Student's.
func widening(a, b *drawing) float64 {
	lacking, blocks := 1.0, 0.0
	for _, d := range []*drawing{a, b} {
		n := 0.0
		for i, run := range d.runs {
			n += float64(len(run)) / float64(d.block[i])
		}
		if len(d.runs) > 1 { // runs are what is drawn
			n = float64(len(d.runs))
		}
		lacking = max(lacking, n/(n-1))
		blocks += n - 1
	}
	return math.Sqrt(lacking) * student(blocks) / normal
}

// normal is how many standard deviations from its mean 95 % of a normal distribution are.
const normal = 1.959964

// student is the same of Student's distribution, by its expansion (Abramowitz and Stegun
// 26.7.5).
func student(freedom float64) float64 {
	const (
		x  = normal
		x3 = x * x * x
		x5 = x * x * x3
		x7 = x * x * x5
		g1 = (x3 + x) / 4
		g2 = (5*x5 + 16*x3 + 3*x) / 96
		g3 = (3*x7 + 19*x5 + 17*x3 - 15*x) / 384
	)
	return x + (g1+(g2+g3/freedom)/freedom)/freedom
}
