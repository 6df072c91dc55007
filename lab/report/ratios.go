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
	// disturbedSlice is the share of a CPU that other programs may use in a round. Slices of a round in
	// which they used more are left out. Clock ticks and interrupts alone make a tenth.
	disturbedSlice = 0.4
	// disturbedRun is the share of pairs of slices from which on too many are disturbed to leave them out.
	disturbedRun = 0.25
	// disturbedMean is the share of a CPU that other programs may use on average over all rounds.
	disturbedMean = 0.2
	// disturbedFactor widens the interval of a ratio that was measured beside other programs. They take
	// caches and CPUs from both contenders, but not to the same degree: nginx's cost was 0.44 of net/http's on
	// a quiet machine and up to 0.56 on a busy one.
	disturbedFactor = 1.5
	// probeShift is by how much the probe may differ between two contenders on average. Noise affects
	// it beside both alike, so a larger difference is the contenders' own work on the caches.
	probeShift = 0.01
	// sleepShown is the share of a CPU that a contender may use while others have their turns.
	sleepShown = 0.005
	// deferredShown is the share of its CPU time that a contender may use after its slices.
	deferredShown = 0.02
)

// compared is how the records of two contenders compare.
type compared struct {
	stat.Estimate
	disturbed bool // other programs used the CPUs: the bounds are wide
	shifted   bool // the probe differed, and nothing is corrected by it
}

// ratioOfWeights returns the ratio of a figure of CPU time, corrected by the probe.
func ratioOfWeights(of, than []*trial.Record, figure func(*trial.Slice) float64) compared {
	return ratio(of, than, figure, true)
}

// ratioOfRates returns the ratio of the rates of requests. At saturation it is corrected by the probe
// as the time that a request takes; at a fixed rate that time is not the CPU's.
func ratioOfRates(of, than []*trial.Record) compared {
	saturated := !slices.ContainsFunc(of, func(r *trial.Record) bool { return r != nil && !r.Saturated() })
	c := ratio(of, than, func(s *trial.Slice) float64 { return 1 / s.PerSecond() }, saturated)
	c.Mid = 1 / c.Mid
	if c.Known() {
		c.Lo, c.Hi = 1/c.Hi, 1/c.Lo
	}
	return c
}

// ratio returns how many times as much of a figure the first of two contenders has. Whole trials, of
// which a block has one, are compared by order statistics.
func ratio(of, than []*trial.Record, figure func(*trial.Slice) float64, correct bool) (c compared) {
	p := pair(of, than, figure, true)
	if p.areTrials() {
		c.Interval, _ = stat.Ratio(slices.Concat(p.of...), slices.Concat(p.than...))
		return c
	}
	if c.disturbed = p.isDisturbed(); c.disturbed {
		p = pair(of, than, figure, false)
	}
	c.shifted = correct && p.isShifted()
	if correct && !c.shifted {
		p.of = p.corrected()
	}
	c.Estimate = stat.Ratios(p.of, p.than)
	if c.disturbed && c.Known() {
		c.Lo, c.Hi = c.Lo/disturbedFactor, c.Hi*disturbedFactor
	}
	return c
}

// differenceOfWeights returns how much more of a figure of CPU time the first of two contenders has. It has
// no bounds if other programs used the CPUs.
func differenceOfWeights(of, than []*trial.Record, figure func(*trial.Slice) float64) (i stat.Interval) {
	p := pair(of, than, figure, true)
	if p.areTrials() {
		i, _ = stat.Difference(slices.Concat(p.of...), slices.Concat(p.than...))
		return i
	}
	disturbed := p.isDisturbed()
	if disturbed {
		p = pair(of, than, figure, false)
	}
	if !p.isShifted() {
		p.of = p.corrected()
	}
	i = stat.Differences(p.of, p.than).Interval
	if disturbed {
		i.Lo, i.Hi = math.Inf(-1), math.Inf(1)
	}
	return i
}

// pairing is slices of two contenders, each beside the other's slice of the same round.
type pairing struct {
	of, than  stat.Starts
	probes    [2]stat.Starts // of both
	n, calm   int            // pairs, and those that no other program disturbed
	trials    int            // of n, those that are whole trials
	othersCPU float64        // share of a CPU that other programs used, summed over both slices of all pairs
}

// pair sets the slices of two contenders beside each other. If onlyCalm it leaves out disturbed ones.
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

// corrected returns the values of the first contender without what the probe explains.
func (p *pairing) corrected() stat.Starts {
	return stat.Corrected(p.of, p.than, p.probes[0], p.probes[1])
}

// isShifted reports whether the probe took longer beside one of the two for sure.
func (p *pairing) isShifted() bool {
	probe := stat.Ratios(p.probes[0], p.probes[1])
	return probe.Known() && (probe.Lo > 1+probeShift || probe.Hi < 1-probeShift)
}

// count counts a pair and reports whether it is calm.
func (p *pairing) count(a, b *trial.Slice) bool {
	p.n++
	if a.Round == 0 { // othersBusy judges a whole trial
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

// areTrials reports whether the pairs are whole trials.
func (p *pairing) areTrials() bool { return p.trials == p.n }

// isDisturbed reports whether other programs used the CPUs too often.
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

// besides returns the records of another contender that can be compared with some records: those of
// the same kind, side by side or alone.
func besides(run *Run, other *Entrant, c trial.Condition, of []*trial.Record) []*trial.Record {
	for _, r := range of {
		if r != nil {
			return kindOfBlocks(run, other, c, r.Alone != "")
		}
	}
	return make([]*trial.Record, run.Blocks)
}

// perBlock returns the records of a contender under a condition, by block; nil where it failed or was not
// measured. If any is of slices beside others, all are; else they are of trials alone.
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

// Chance returns a sentence on how much slices and starts vary by chance: the medians of the rows.
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
	return fmt.Sprintf("Each ratio is of up to %d slices of load, each divided by the control's slice of the same round and corrected by how fast the CPU was in both. Ratios vary by %.1f %% from slice to slice and by %.1f %% from start to start (standard deviations, medians of the rows).",
		n, 100*slice.Mid, 100*start.Mid)
}

// disturbed warns of other programs' work.
func disturbed(_ *Analysis, _ *Table, row *Row) string {
	if !row.Disturbed || row.Kind == Control {
		return ""
	}
	return "other programs, or other virtual machines on the same host, used the CPUs meanwhile: the interval is widened by half, because they change ratios"
}

// probeDiffered warns that a ratio is not corrected.
func probeDiffered(_ *Analysis, _ *Table, row *Row) string {
	if !row.shifted || row.Kind == Control {
		return ""
	}
	return fmt.Sprintf("the probe of the CPU's speed took longer or shorter than beside the control by more than %.0f %%: the ratio is not corrected by it", 100*probeShift)
}

// usedAsleep reports what a contender's rest costs its neighbours, and work that it does after its slices.
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
	used := fmt.Sprintf("it used %.1f %% of a CPU while others had their turns", 100*worst)
	if isDeferred {
		used += fmt.Sprintf(", %.1f %% as much CPU time as in its own: a request may cost as much more", 100*share)
	}
	return used
}

// measuredAlone returns why a contender was not measured beside others.
func measuredAlone(a *Analysis, t *Table, row *Row) string {
	for _, r := range a.records(t, row) {
		if r.Alone != "" {
			return "measured alone, in trials of fresh processes that alternate with the control's: " + r.Alone
		}
	}
	return ""
}

// stillWarming warns of a contender whose requests cost more at the beginning of its starts than at their end.
func stillWarming(a *Analysis, t *Table, row *Row) string {
	const margin = 0.05 // less would need more slices
	var early, late stat.Starts
	control := besides(a.Run, a.control(), t.Condition, row.blocks)
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
	return fmt.Sprintf("its requests cost %.0f %% more in the first half of its starts than in the second: it may need a longer --warmup", 100*(e.Mid-1))
}
