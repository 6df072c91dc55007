package report

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/tarehq/tare/lab/stat"
	"github.com/tarehq/tare/lab/trial"
)

const (
	// disturbedSlice is the share of a CPU that other programs may use during a slice. Slices above
	// it are left out. Clock ticks and interrupts alone make a tenth.
	disturbedSlice = 0.4
	// disturbedRun is the share of disturbed pairs of slices from which they are not left out.
	disturbedRun = 0.25
	// disturbedMean is the share of a CPU that other programs may use on average.
	disturbedMean = 0.2
	// disturbedFactor widens the interval if other programs ran. They take caches and CPUs from
	// both contenders, but not to the same degree: nginx's cost was 0.44 of net/http's on a quiet
	// machine and up to 0.56 on a busy one.
	disturbedFactor = 1.5
	// probeShift is the allowed average difference of the probe between two contenders. Noise affects
	// both alike, so a larger difference is the contenders' own effect on the caches.
	probeShift = 0.01
	// sleepShown is the share of a CPU that a contender may use during the slices of others.
	sleepShown = 0.005
	// deferredShown is the share of its CPU time that a contender may use after its slices.
	deferredShown = 0.02
)

// comparison is the ratio of the records of two contenders.
type comparison struct {
	stat.Estimate
	disturbed bool // other programs used the CPUs, so the bounds are widened
	shifted   bool // the probe differed, so the ratio is not corrected by it
}

// ratioOfWeights returns the ratio of a CPU time, corrected by the probe.
func ratioOfWeights(of, than []*trial.Record, figure func(*trial.Slice) float64) comparison {
	return ratio(of, than, figure, true)
}

// ratioOfRates returns the ratio of the request rates. At saturation the time of a request is
// corrected by the probe. At a fixed rate it is not, because it is no CPU time.
func ratioOfRates(of, than []*trial.Record) comparison {
	saturated := !slices.ContainsFunc(of, func(r *trial.Record) bool { return r != nil && !r.Saturated() })
	c := ratio(of, than, func(s *trial.Slice) float64 { return 1 / s.PerSecond() }, saturated)
	c.Mid = 1 / c.Mid
	if c.Known() {
		c.Lo, c.Hi = 1/c.Hi, 1/c.Lo
	}
	return c
}

// ratio divides a figure of the first contender by that of the second. Whole trials, one for each
// block, are compared by order statistics.
func ratio(of, than []*trial.Record, figure func(*trial.Slice) float64, correct bool) (c comparison) {
	p := compare(of, than, figure, correct)
	if p.areTrials() {
		c.Interval, _ = stat.Ratio(slices.Concat(p.of...), slices.Concat(p.than...))
		return c
	}
	c.Estimate, c.disturbed, c.shifted = stat.Ratios(p.of, p.than), p.disturbed, p.shifted
	if c.disturbed && c.Known() {
		c.Lo, c.Hi = c.Lo/disturbedFactor, c.Hi*disturbedFactor
	}
	return c
}

// differenceOfWeights returns by how much a CPU time of the first contender exceeds that of the
// second. It has no bounds if other programs used the CPUs.
func differenceOfWeights(of, than []*trial.Record, figure func(*trial.Slice) float64) (i stat.Interval) {
	p := compare(of, than, figure, true)
	if p.areTrials() {
		i, _ = stat.Difference(slices.Concat(p.of...), slices.Concat(p.than...))
		return i
	}
	i = stat.Differences(p.of, p.than).Interval
	if p.disturbed {
		i.Lo, i.Hi = math.Inf(-1), math.Inf(1)
	}
	return i
}

// compare returns the pairs that a comparison uses: undisturbed ones unless too many are disturbed,
// and corrected by the probe unless it differs between the contenders.
func compare(of, than []*trial.Record, figure func(*trial.Slice) float64, correct bool) pairing {
	p := pair(of, than, figure, true)
	if p.areTrials() {
		return p
	}
	if p.isDisturbed() {
		p = pair(of, than, figure, false)
		p.disturbed = true
	}
	if p.shifted = correct && p.isShifted(); correct && !p.shifted {
		p.of = stat.Corrected(p.of, p.than, p.probes[0], p.probes[1])
	}
	return p
}

// pairing holds slices of two contenders, each beside the other's slice of the same round.
type pairing struct {
	of, than  stat.Starts
	probes    [2]stat.Starts // of each contender
	n, calm   int            // pairs, and undisturbed pairs
	trials    int            // pairs of whole trials, included in n
	disturbed bool           // too many pairs are disturbed to leave them out
	shifted   bool           // the probe differs, so the pairs are not corrected
	othersCPU float64        // sum of the shares of a CPU that other programs used, over both slices of all pairs
}

// pair matches the slices of two contenders by round. If onlyCalm is set, it leaves out disturbed
// pairs.
func pair(of, than []*trial.Record, figure func(*trial.Slice) float64, onlyCalm bool) (p pairing) {
	for i, r := range of {
		if r == nil || than[i] == nil {
			continue
		}
		var a, b, probeA, probeB []float64
		own, other := r.Parts(), than[i].Parts()
		for j := range own {
			with := partner(&own[j], other)
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
func (p *pairing) count(a, b *trial.Slice) bool {
	p.n++
	if a.Round == 0 { // checked by othersBusy
		p.trials++
		p.calm++
		return true
	}
	inA, inB := a.Others.Seconds()/a.Took.Seconds(), b.Others.Seconds()/b.Took.Seconds()
	p.othersCPU += inA + inB
	if max(inA, inB) > disturbedSlice {
		return false
	}
	p.calm++
	return true
}

// areTrials reports whether all pairs are whole trials.
func (p *pairing) areTrials() bool { return p.trials == p.n }

// isDisturbed reports whether other programs used the CPUs too much.
func (p *pairing) isDisturbed() bool {
	return float64(p.n-p.calm) > disturbedRun*float64(p.n) || p.othersCPU/2 > disturbedMean*float64(p.n)
}

// partner returns the slice of the same round, or nil.
func partner(s *trial.Slice, among []trial.Slice) *trial.Slice {
	for i := range among {
		if among[i].Round == s.Round {
			return &among[i]
		}
	}
	return nil
}

func weightOf(s *trial.Slice) float64 { return s.WeightUs("") }

// recordsLike returns the records of another contender that can be compared with these: side by
// side or alone, as these are.
func recordsLike(run *Run, other *Entrant, c trial.Condition, of []*trial.Record) []*trial.Record {
	for _, r := range of {
		if r != nil {
			return kindOfBlocks(run, other, c, r.Alone != "")
		}
	}
	return make([]*trial.Record, run.Blocks)
}

// perBlock returns the records of a contender under a condition, by block. A block in which it
// failed or did not run has nil. Records of slices side by side are preferred to trials alone,
// never mixed.
func perBlock(run *Run, e *Entrant, c trial.Condition) []*trial.Record {
	blocks := kindOfBlocks(run, e, c, false)
	for _, r := range blocks {
		if r != nil {
			return blocks
		}
	}
	return kindOfBlocks(run, e, c, true)
}

func kindOfBlocks(run *Run, e *Entrant, c trial.Condition, alone bool) []*trial.Record {
	blocks := make([]*trial.Record, run.Blocks)
	for i := range run.Records {
		r := &run.Records[i]
		if e != nil && r.Contender == e.Name && r.Condition == c && r.Timed() && (r.Alone != "") == alone {
			blocks[r.Block-1] = r
		}
	}
	return blocks
}

// VariationNote returns a sentence on how much ratios vary between slices and between starts. The
// figures are the medians of the rows.
func (t *Table) VariationNote() string {
	var ofSlices, ofStarts []float64
	n := 0
	for i := range t.Rows {
		if r := &t.Rows[i]; r.Kind != Control && r.SliceSpread > 0 {
			ofSlices, ofStarts = append(ofSlices, r.SliceSpread), append(ofStarts, r.StartSpread)
			n = max(n, r.Slices)
		}
	}
	if len(ofSlices) == 0 {
		return ""
	}
	slice, _ := stat.Median(ofSlices)
	start, _ := stat.Median(ofStarts)
	return fmt.Sprintf("Each ratio comes from up to %d slices of load, each divided by the control's slice of the same round and corrected for the speed of the CPU. Ratios vary by %.1f %% between slices and by %.1f %% between starts (standard deviations, medians of the rows).",
		n, 100*slice.Mid, 100*start.Mid)
}

// disturbed warns that other programs used the CPUs.
func disturbed(_ *Analysis, _ *Table, row *Row) string {
	if !row.Disturbed || row.Kind == Control {
		return ""
	}
	return "other programs or virtual machines used the CPUs and may have changed the ratios, so the intervals are widened by half; run again on a quiet machine"
}

// probeDiffered warns that a ratio is not corrected by the probe.
func probeDiffered(_ *Analysis, _ *Table, row *Row) string {
	if !row.shifted || row.Kind == Control {
		return ""
	}
	return fmt.Sprintf("the probe of the CPU's speed differed from the control's by more than %.0f %%, so the ratio is not corrected by it", 100*probeShift)
}

// usedAsleep warns of CPU time that a contender used during the slices of others.
func usedAsleep(a *Analysis, t *Table, row *Row) string {
	worst := 0.0
	var asleep, inSlices time.Duration
	for _, r := range a.records(t, row) {
		worst = max(worst, r.Asleep.Share())
		asleep += r.Asleep.CPU
		for i := range r.Slices {
			for _, d := range r.Slices[i].CPU {
				inSlices += d
			}
		}
	}
	share := asleep.Seconds() / max(inSlices.Seconds(), 1e-9)
	isDeferred := t.Saturated() && share > deferredShown
	if worst <= sleepShown && !isDeferred {
		return ""
	}
	used := fmt.Sprintf("the contender used %.1f %% of a CPU during the slices of others", 100*worst)
	if isDeferred {
		used += fmt.Sprintf(", which is %.1f %% of the CPU time in its own slices: a request may cost that much more",
			100*share)
	}
	return used
}

// measuredAlone reports why a contender was not measured beside others.
func measuredAlone(a *Analysis, t *Table, row *Row) string {
	for _, r := range a.records(t, row) {
		if r.Alone != "" {
			return "measured alone, in trials that alternate with the control's, each with new processes: " + r.Alone
		}
	}
	return ""
}

// stillWarming warns if requests cost more in the first half of the starts than in the second.
func stillWarming(a *Analysis, t *Table, row *Row) string {
	const margin = 0.05 // a smaller margin needs more slices
	var early, late stat.Starts
	control := recordsLike(a.Run, a.control(), t.Condition, row.blocks)
	for i, r := range row.blocks {
		if r == nil || control[i] == nil || len(r.Slices) < 4 || row.Kind == Control {
			continue
		}
		var ratios []float64
		other := control[i].Parts()
		for j := range r.Slices {
			if with := partner(&r.Slices[j], other); with != nil {
				ratios = append(ratios, weightOf(&r.Slices[j])/weightOf(with))
			}
		}
		half := len(ratios) / 2
		early, late = append(early, ratios[:half]), append(late, ratios[len(ratios)-half:])
	}
	e := stat.Ratios(early, late)
	if !e.Known() || e.Lo <= 1+margin {
		return ""
	}
	return fmt.Sprintf("requests cost %.0f %% more in the first half of each start than in the second: the contender may need a longer warm-up than %v", 100*(e.Mid-1), a.Warmup)
}
