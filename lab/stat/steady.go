package stat

import (
	"math"
	"slices"
)

// Steady returns from which value on a series has settled: from there on its level does not
// change any more by more than chance, or by more than Margin. It reports false if less than
// half of the series is left then: it may not have settled at all.
//
// Levels are told apart by binary segmentation: where a series is best cut in two, it is, if that
// explains more than chance would, and so are its parts.
func Steady(values []float64) (from int, ok bool) {
	if len(values) < 2*shortestLevel {
		return 0, false
	}
	cuts := segment(values, 0, penalty*noise(values)*math.Log(float64(len(values))), []int{0})
	slices.Sort(cuts)
	last := mean(values[cuts[len(cuts)-1]:])
	from = cuts[len(cuts)-1]
	for i := len(cuts) - 2; i >= 0; i-- {
		if level := mean(values[cuts[i]:cuts[i+1]]); math.Abs(level-last) > Margin*math.Abs(last) {
			break
		}
		from = cuts[i]
	}
	return from, 2*(len(values)-from) >= len(values)
}

const (
	// shortestLevel is how many values make a level: fewer are an outlier.
	shortestLevel = 3
	// penalty is what another level has to explain, in variances of a value and logarithms of
	// their number. With 4 a series without a change is cut once in a hundred times.
	penalty = 4
)

// segment adds to cuts those of values, of which the first is number start of the series.
func segment(values []float64, start int, least float64, cuts []int) []int {
	at, gain := bestCut(values)
	if gain <= least {
		return cuts
	}
	cuts = append(cuts, start+at)
	cuts = segment(values[:at], start, least, cuts)
	return segment(values[at:], start+at, least, cuts)
}

// bestCut returns where two levels explain most, and by how much the sum of squares is less then.
func bestCut(values []float64) (at int, gain float64) {
	total := 0.0
	for _, v := range values {
		total += v
	}
	n, left := float64(len(values)), 0.0
	for i, v := range values[:max(0, len(values)-shortestLevel)] {
		left += v
		k := float64(i + 1)
		if i+1 < shortestLevel {
			continue
		}
		apart := left/k - (total-left)/(n-k)
		if g := apart * apart * k * (n - k) / n; g > gain {
			at, gain = i+1, g
		}
	}
	return at, gain
}

// noise returns the variance of a value around its level. It is taken from neighbours, which
// mostly have the same level, and by their median, which a few jumps do not change.
func noise(values []float64) float64 {
	steps := make([]float64, len(values)-1)
	for i := range steps {
		steps[i] = math.Abs(values[i+1] - values[i])
	}
	slices.Sort(steps)
	const normalMedian = 0.6745 // of the absolute value of a normal variable
	deviation := steps[len(steps)/2] / normalMedian / math.Sqrt2
	return deviation * deviation
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
