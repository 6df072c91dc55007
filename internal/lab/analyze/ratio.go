package analyze

import (
	"math"
	"slices"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
)

const (
	// disturbedSlice is the share of a CPU that other programs may use during a slice. Slices above
	// it are left out. Clock ticks and interrupts alone make a tenth.
	disturbedSlice = 0.4
	disturbedRun   = 0.25 // share of disturbed pairs of slices from which they are not left out
	disturbedMean  = 0.2  // share of a CPU that other programs may use on average
	// disturbedShift is how far other programs that use a whole CPU move a ratio from its value on a
	// quiet machine, as a share of its distance from 1 (of logarithms). They slow both contenders:
	// 12 of 12 ratios of equal programs held 1 without a wider interval, beside a load of 12 to 23.
	// Ratios of unequal programs moved towards 1 (0.44 to 0.56) or away from it (1.27 to 1.40).
	// How far does not follow from the others' CPU time: a line through both explained nothing.
	disturbedShift = 0.5
	// disturbedRateShift is how far other programs move a ratio at a fixed rate towards 1. All
	// servers then find their caches full of others' data: of five runs beside a compiler, tare
	// moved most, from 0.56 to 0.74.
	disturbedRateShift = 1.0
	// probeShift is the allowed average difference of the probe between two contenders. Noise
	// affects both alike, so a larger difference is the contenders' own effect on the caches.
	probeShift = 0.01
)

// Ratio is the ratio of a figure of two contenders.
type Ratio struct {
	stat.Estimate
	Others  float64 // share of a CPU that other programs used; 0 if it does not widen the bounds
	Shifted bool    // the probe differed, so the ratio is not corrected by it
}

// Figure returns a CPU time of a slice.
type Figure func(*sample.Slice) float64

// Weight is the CPU time per request of all processes, in microseconds.
func Weight(s *sample.Slice) float64 { return s.WeightUs("") }

// Weights returns the ratio of a CPU time, corrected by the probe. of and than hold the records of
// two contenders, by block. Both are of one condition; nil is a block without a record.
func Weights(of, than []*sample.Record, figure Figure) Ratio { return ratio(of, than, figure, true) }

// Rates returns the ratio of the request rates. At saturation the time of a request is
// corrected by the probe. At a fixed rate it is not, because it is no CPU time.
func Rates(of, than []*sample.Record) Ratio {
	saturated := !slices.ContainsFunc(of, func(r *sample.Record) bool { return r != nil && !r.Saturated() })
	c := ratio(of, than, func(s *sample.Slice) float64 { return 1 / s.PerSecond() }, saturated)
	c.Interval = inverse(c.Interval)
	return c
}

// ratio divides a figure of the first contender by that of the second. A whole trial is a start
// with one value.
func ratio(of, than []*sample.Record, figure Figure, correct bool) (c Ratio) {
	p := compare(of, than, figure, correct)
	c.Estimate, c.Others, c.Shifted = stat.Ratios(p.of, p.than), p.others(), p.shifted
	away := disturbedShift
	if slices.ContainsFunc(of, func(r *sample.Record) bool { return r != nil && !r.Saturated() }) {
		away = disturbedRateShift
	}
	c.Interval = widened(c.Interval, c.Others, away)
	return c
}

// widened returns an interval of a ratio that allows for the use of CPUs by other programs. away is
// the shift on the side away from 1. The distance from 1 is at least half the interval, so that a
// ratio near 1 has a wider one, too.
func widened(i stat.Interval, others, away float64) stat.Interval {
	if !i.Known() || i.Lo <= 0 {
		return i
	}
	distance := min(1, others) * max(math.Abs(math.Log(i.Mid)), math.Log(i.Hi/i.Lo)/2)
	near, far := math.Exp(disturbedShift*distance), math.Exp(away*distance)
	if i.Mid < 1 {
		return stat.Interval{Lo: i.Lo / far, Mid: i.Mid, Hi: i.Hi * near}
	}
	return stat.Interval{Lo: i.Lo / near, Mid: i.Mid, Hi: i.Hi * far}
}

// compare returns the pairs that a comparison uses: undisturbed ones unless too many are disturbed,
// and corrected by the probe unless it differs between the contenders.
func compare(of, than []*sample.Record, figure Figure, correct bool) pairing {
	p := pair(of, than, figure, true)
	if p.isDisturbed() {
		p = pair(of, than, figure, false)
	}
	if p.shifted = correct && p.isShifted(); correct && !p.shifted {
		p.of = stat.Corrected(p.of, p.probes[0], p.probes[1])
	}
	return p
}

// pairing holds slices of two contenders, each beside the other's slice of the same round.
type pairing struct {
	of, than  stat.Starts
	probes    [2]stat.Starts // of each contender
	n, calm   int            // pairs, and undisturbed pairs
	shifted   bool           // the probe differs, so the pairs are not corrected
	othersCPU float64        // sum of the shares of a CPU that other programs used, over both slices of all pairs
}

// pair matches the slices of two contenders by round. If onlyCalm is set, it leaves out disturbed
// pairs.
func pair(of, than []*sample.Record, figure Figure, onlyCalm bool) (p pairing) {
	for i, r := range of {
		if r == nil || than[i] == nil {
			continue
		}
		var a, b, probeA, probeB []float64
		own, other := r.Parts(), than[i].Parts()
		for j := range own {
			with := sample.First(other, func(s *sample.Slice) bool { return s.Round == own[j].Round })
			if with == nil {
				continue
			}
			isCalm := p.count(&own[j], with)
			if isCalm || !onlyCalm {
				a, b = append(a, figure(&own[j])), append(b, figure(with))
				probeA, probeB = append(probeA, float64(own[j].Probe)), append(probeB, float64(with.Probe))
			}
		}
		p.of, p.than = append(p.of, a), append(p.than, b)
		p.probes[0], p.probes[1] = append(p.probes[0], probeA), append(p.probes[1], probeB)
	}
	return p
}

// isShifted reports whether the probe surely took longer beside one of the two.
func (p *pairing) isShifted() bool {
	probe := stat.Ratios(p.probes[0], p.probes[1])
	return probe.Known() && (probe.Lo > 1+probeShift || probe.Hi < 1-probeShift)
}

// count adds a pair to the totals and reports whether it is calm.
func (p *pairing) count(a, b *sample.Slice) bool {
	p.n++
	inA, inB := a.Others.Seconds()/a.Elapsed.Seconds(), b.Others.Seconds()/b.Elapsed.Seconds()
	p.othersCPU += inA + inB
	if a.Round > 0 && max(inA, inB) > disturbedSlice { // a whole trial is never left out
		return false
	}
	p.calm++
	return true
}

// isDisturbed reports whether other programs used the CPUs too much.
func (p *pairing) isDisturbed() bool {
	return float64(p.n-p.calm) > disturbedRun*float64(p.n) || p.othersCPU/2 > disturbedMean*float64(p.n)
}

// others returns the share of a CPU that other programs used; 0 if it was not too much.
func (p *pairing) others() float64 {
	if !p.isDisturbed() {
		return 0
	}
	return p.othersCPU / 2 / float64(p.n)
}
