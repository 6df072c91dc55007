package report

import (
	"fmt"
	"math"
	"slices"

	"github.com/tarehq/tare/lab/stat"
	"github.com/tarehq/tare/lab/trial"
)

const (
	// disturbedSlice is the share of a processor that other programs may use in a slice. Of one in which
	// they used more nothing is compared: clock ticks alone make a tenth.
	disturbedSlice = 0.25
	// disturbedRun is the share of pairs of slices from which on too many are disturbed to compare the
	// others: what works beside a server changes the ratio itself.
	disturbedRun = 0.25
	// disturbedMean is the share of a processor that other programs may use on the mean of all slices. In
	// recorded slices ratios differ by up to a tenth between a machine that is at rest and one that is busy.
	disturbedMean = 0.1
	// sleepShown is the share of a processor that a contender may use while others have their turns.
	sleepShown = 0.005
)

// compared is what the records of two contenders, by block, show side by side.
type compared struct {
	stat.Estimate
	disturbed bool // other programs had the processors
}

// comparison is how values that were measured side by side are compared: those of slices, and those of
// whole trials, of which a block has one, and nothing tames an outlier but order statistics.
type comparison struct {
	slices func(a, b stat.Starts) stat.Estimate
	trials func(a, b []float64) (stat.Interval, []error)
}

// ratio returns by how much more of a figure one of two contenders has that were measured side by side.
func ratio(of, than []*trial.Record, figure func(*trial.Slice) float64) compared {
	return comparison{stat.Ratios, stat.Ratio}.of(of, than, figure)
}

// difference returns how much more.
func difference(of, than []*trial.Record, figure func(*trial.Slice) float64) stat.Interval {
	return comparison{stat.Differences, stat.Difference}.of(of, than, figure).Interval
}

// of compares a figure. If other programs disturbed too many slices there is no interval, so that
// nothing is found.
func (c comparison) of(of, than []*trial.Record, figure func(*trial.Slice) float64) (found compared) {
	p := pair(of, than, figure, true)
	if p.whole() {
		found.Interval, _ = c.trials(slices.Concat(p.of...), slices.Concat(p.than...))
		return found
	}
	if !p.isDisturbed() {
		found.Estimate = c.slices(p.corrected(), p.than)
		return found
	}
	p = pair(of, than, figure, false)
	found.Estimate, found.disturbed = c.slices(p.corrected(), p.than), true
	found.Lo, found.Hi = math.Inf(-1), math.Inf(1)
	return found
}

// neighbours are slices of two contenders beside each other.
type neighbours struct {
	of, than  stat.Starts
	probes    [2]stat.Starts // of both
	n, calm   int            // how many, and those of them that no other program disturbed
	trials    int            // of n, those that are whole trials
	processor float64        // that other programs used, summed over both of all pairs
}

// pair sets the slices of two contenders beside each other. Where only calm ones are wanted, others are
// left out.
func pair(of, than []*trial.Record, figure func(*trial.Slice) float64, onlyCalm bool) (p neighbours) {
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

// corrected returns the values of the first, each changed by what its processors were slower than those of
// the other.
func (p *neighbours) corrected() stat.Starts {
	return stat.Corrected(p.of, p.than, p.probes[0], p.probes[1])
}

// count counts a pair, and reports whether it is calm.
func (p *neighbours) count(a, b *trial.Slice) bool {
	p.n++
	if a.Round == 0 { // othersBusy judges a whole trial
		p.trials++
		p.calm++
		return true
	}
	inA, inB := a.Others.Seconds()/a.Took.Seconds(), b.Others.Seconds()/b.Took.Seconds()
	p.processor += inA + inB
	if max(inA, inB) > disturbedSlice {
		return false
	}
	p.calm++
	return true
}

// whole reports whether they are whole trials.
func (p *neighbours) whole() bool { return p.trials == p.n }

// isDisturbed reports whether nothing can be found by the pairs.
func (p *neighbours) isDisturbed() bool {
	return float64(p.n-p.calm) > disturbedRun*float64(p.n) || p.processor/2 > disturbedMean*float64(p.n)
}

// partner returns the slice of the same heat, or else of the same round; nil if there is none.
func partner(s *trial.Slice, among []trial.Slice) (found *trial.Slice) {
	for i := range among {
		switch p := &among[i]; {
		case p.Round != s.Round:
		case p.Heat == s.Heat:
			return p
		case found == nil:
			found = p
		}
	}
	return found
}

func weightOf(s *trial.Slice) float64 { return s.WeightUs("") }

func rateOf(s *trial.Slice) float64 { return s.PerSecond() }

// besides returns the control's records that a contender's are to be compared with: those of the same
// kind, side by side or alone.
func besides(run *Run, control *Entrant, c trial.Condition, of []*trial.Record) []*trial.Record {
	for _, r := range of {
		if r != nil {
			return kindOfBlocks(run, control, c, r.Alone != "")
		}
	}
	return make([]*trial.Record, run.Blocks)
}

// perBlock returns the records of a contender under a condition, by block; nil where a trial failed or
// was not made. They are those of slices beside others if there is one, else those of trials alone.
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

// Chance says how much slices and starts vary by chance: the median of the rows.
func (t *Table) Chance() string {
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
	return fmt.Sprintf("Ratios are of up to %d slices, each beside one of the control. By chance they vary by %.1f %% from slice to slice and by %.1f %% from start to start (standard deviations; medians of the rows).",
		n, 100*slice.Mid, 100*start.Mid)
}

// disturbed is a warning of other programs' work.
func disturbed(_ *Analysis, _ *Table, row *Row) string {
	if !row.Disturbed || row.Kind == Control {
		return ""
	}
	return "other programs used the processors meanwhile: the machine was disturbed, and nothing can be concluded"
}

// notAsleep tells what a contender costs its neighbours.
func notAsleep(a *Analysis, t *Table, row *Row) string {
	worst := 0.0
	for _, r := range a.records(t, row) {
		worst = max(worst, r.Asleep.Share())
	}
	if worst <= sleepShown {
		return ""
	}
	return fmt.Sprintf("it used %.1f %% of a processor while others had their turns", 100*worst)
}

// measuredAlone says why a contender was not measured beside others.
func measuredAlone(a *Analysis, t *Table, row *Row) string {
	for _, r := range a.records(t, row) {
		if r.Alone != "" {
			return "measured alone, in turns of fresh processes with the control: " + r.Alone
		}
	}
	return ""
}

// stillWarming warns of a contender whose requests cost less at the end of its starts than at their
// beginning, or more.
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
	return fmt.Sprintf("its requests cost %.0f %% more in the first half of its starts than in the second: a longer --warmup may tell more", 100*(e.Mid-1))
}
