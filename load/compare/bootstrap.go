package compare

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/aclements/go-moremath/stats"

	"github.com/tarehq/tare/internal/stat"
)

// resamples is the number of times that the seconds of both sides are drawn. With it, the bounds of
// an interval vary by a few hundredths of its width between seeds.
const resamples = 1000

// bootstrap returns, for each figure, by which factors the ratio of b to a may be off: the interval
// around 1 with stat.Confidence. It draws blocks of consecutive seconds because neighboring seconds
// are correlated (Künsch, The jackknife and the bootstrap for general stationary observations,
// 1989). If a side has several runs, it draws runs first. Equal input gives equal bounds.
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

// spread returns the factors between which stat.Confidence of the ratios lie around their median,
// multiplied by wide. The ratios are given as logarithms.
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

type drawing struct {
	series *series
	sum    *sum
	block  []int // block length in seconds, by run
}

func newDrawing(s *series) *drawing {
	d := &drawing{series: s, sum: newSum(s)}
	for _, run := range s.runs {
		d.block = append(d.block, blockLength(len(run)))
	}
	return d
}

// blockLength returns the block length for n seconds: the square root, so that both the blocks and
// their number grow with n. Longer blocks would suit longer correlations but leave fewer blocks.
func blockLength(n int) int { return int(math.Round(math.Sqrt(float64(n)))) }

// draw returns the sum of as many randomly drawn seconds as the runs have.
func (d *drawing) draw(random *rand.Rand) *sum {
	d.sum.reset()
	for i := range d.series.runs {
		if len(d.series.runs) > 1 {
			i = random.IntN(len(d.series.runs))
		}
		run, block := d.series.runs[i], d.block[i]
		for left := len(run); left > 0; left -= block {
			from := random.IntN(len(run) - block + 1)
			for j := range min(block, left) {
				d.sum.add(&run[from+j])
			}
		}
	}
	return d.sum
}

// widening returns a factor that corrects a bootstrap of few blocks. Its variance is too small,
// like a sample variance divided by n instead of n-1. Its bounds are those of a normal distribution
// instead of Student's.
func widening(a, b *drawing) float64 {
	lacking, blocks := 1.0, 0.0
	for _, d := range []*drawing{a, b} {
		n := 0.0
		for i, run := range d.series.runs {
			n += float64(len(run)) / float64(d.block[i])
		}
		if len(d.series.runs) > 1 { // runs are drawn, not blocks
			n = float64(len(d.series.runs))
		}
		lacking = max(lacking, n/(n-1))
		blocks += n - 1
	}
	return math.Sqrt(lacking) * student(blocks) / normal
}

const normal = 1.959964 // upper bound of a standard normal distribution's interval

// student returns the same bound of Student's distribution.
func student(freedom float64) float64 {
	return stats.InvCDF(stats.TDist{V: freedom})((1 + stat.Confidence) / 2)
}
