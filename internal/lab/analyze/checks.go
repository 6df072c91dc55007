package analyze

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/stat"
	"github.com/tarehq/tare/load"
	loadreport "github.com/tarehq/tare/load/report"
)

func (a *Analysis) check() {
	for i := range a.Tables {
		t := &a.Tables[i]
		for j := range t.Rows {
			row := &t.Rows[j]
			row.Limits = a.warnings(t, row, failures, tooFewBlocks, measuredAlone)
			row.Warnings = append(row.Limits, a.warnings(t, row, twinMisses, generatorBound, rateMissed,
				errorsSeen, stillWarming, usedAsleep, disturbed, probeDiffered, connectionsLost)...)
		}
	}
}

// warnings returns the results of checks. Each examines a row and returns a warning or "".
func (a *Analysis) warnings(t *Table, row *Row, checks ...func(*Analysis, *Table, *Row) string) (all []string) {
	for _, check := range checks {
		if warning := check(a, t, row); warning != "" {
			all = append(all, warning)
		}
	}
	return slices.Clip(all)
}

func (r *Row) measured() []*sample.Record {
	return slices.DeleteFunc(slices.Clone(r.blocks), func(r *sample.Record) bool { return r == nil })
}

func failures(a *Analysis, _ *Table, row *Row) string {
	if len(row.Failures) == 0 {
		return ""
	}
	first, _, _ := strings.Cut(row.Failures[0], "\n")
	return fmt.Sprintf("%d of %d trials failed: %s", len(row.Failures), a.Blocks, first)
}

func tooFewBlocks(a *Analysis, _ *Table, row *Row) string {
	if row.Trials == 0 || row.Ratio.Known() || row.Kind == sample.Control {
		return ""
	}
	return fmt.Sprintf("only %d of %s were measured, which are too few for an interval", row.Trials,
		loadreport.Plural(a.Blocks, "block"))
}

// twinMisses checks all intervals at once: the twin equals the control, so an interval of its ratio
// that excludes 1 is wrong.
func twinMisses(_ *Analysis, _ *Table, row *Row) string {
	if row.Kind != sample.Twin || !row.Ratio.Known() || row.Ratio.Contains(1) {
		return ""
	}
	off := max(math.Abs(row.Ratio.Lo-1), math.Abs(row.Ratio.Hi-1))
	return fmt.Sprintf("the twin is a copy of the control, but its interval excludes 1: do not trust differences below %.0f %%", 100*off)
}

func generatorBound(_ *Analysis, t *Table, row *Row) string {
	if !(load.Generator{Busy: row.Busy}).MayLimit() || !t.Saturated() { // rateMissed reports it at a fixed rate
		return ""
	}
	return fmt.Sprintf("the load generator was %.0f %% busy, so it may limit the rate, not the server", 100*row.Busy)
}

func errorsSeen(a *Analysis, t *Table, row *Row) string {
	var n, of uint64
	first := ""
	for _, r := range row.measured() {
		n += r.Load.Errors.Total()
		of += r.Load.Requests
		if first == "" {
			first = r.Load.Errors.First
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d errors beside %d responses; the first error: %s", n, of, first)
}

func connectionsLost(a *Analysis, t *Table, row *Row) string {
	if row.Response != nil && !row.Response.KeepAlive || t.Scenario.Handshakes != "" {
		return "" // the server closes each connection after one response, or the client does
	}
	var n uint64
	for _, r := range row.measured() {
		n += r.Load.Connects
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("clients had to open %d connections again during the measurement", n)
}

const reachedBound = 0.99 // share of due requests that must receive a response

// rateMissed warns of trials that did not reach their fixed rate, and of doubts about the
// generator.
func rateMissed(a *Analysis, t *Table, row *Row) string {
	if t.Saturated() {
		return ""
	}
	missed, worst := 0, 1.0
	records := row.measured()
	for _, r := range records {
		if share := float64(r.Load.Requests) / max(1, r.Load.Due); share < reachedBound {
			missed++
			worst = min(worst, share)
		}
	}
	if missed > 0 {
		return fmt.Sprintf("the rate was not reached in %d of %d trials; in the worst, %.1f %% of the due requests received a response", missed, len(records), 100*worst)
	}
	return generatorDoubted(records)
}

// generatorDoubted returns why the load generator, and not the contender, may have limited most
// trials at a fixed rate.
func generatorDoubted(records []*sample.Record) string {
	n, why := 0, ""
	for _, r := range records {
		if doubts := r.Load.Doubts(); len(doubts) > 0 {
			n++
			why = doubts[0]
		}
	}
	if 2*n <= len(records) {
		return ""
	}
	return fmt.Sprintf("in %d of %d trials %s", n, len(records), why)
}

const (
	sleepShown    = 0.005 // share of a CPU that a contender may use during the slices of others
	deferredShown = 0.02  // share of its CPU time that a contender may use after its slices
)

// recordsLike returns the records of another contender that may be compared with those of records:
// in each block both are slices side by side, or both are whole trials.
func recordsLike(run *sample.Run, other *sample.Entrant, c sample.Condition, of []*sample.Record) []*sample.Record {
	return inBlocks(run, other, c, func(r *sample.Record) bool {
		return r.Timed() && of[r.Block-1] != nil && (r.Alone != "") == (of[r.Block-1].Alone != "")
	})
}

// perBlock returns the records of a contender under a condition, by block. A block in which it
// failed or did not run has nil. A record of slices side by side is preferred to a trial alone.
func perBlock(run *sample.Run, e *sample.Entrant, c sample.Condition) []*sample.Record {
	blocks := inBlocks(run, e, c, func(r *sample.Record) bool { return r.Timed() && r.Alone == "" })
	for i, alone := range inBlocks(run, e, c, (*sample.Record).Timed) {
		if blocks[i] == nil {
			blocks[i] = alone
		}
	}
	return blocks
}

// inBlocks returns a contender's records under a condition by block, if they satisfy is.
func inBlocks(run *sample.Run, e *sample.Entrant, c sample.Condition, is func(*sample.Record) bool) []*sample.Record {
	blocks := make([]*sample.Record, run.Blocks)
	for i := range run.Records {
		r := &run.Records[i]
		if e != nil && r.Contender == e.Name && r.Condition == c && is(r) {
			blocks[r.Block-1] = r
		}
	}
	return blocks
}

// disturbed warns that other programs used the CPUs.
func disturbed(_ *Analysis, t *Table, row *Row) string {
	if row.Ratio.Others == 0 {
		return ""
	}
	return fmt.Sprintf("other programs used %.2f of a CPU, so the intervals are wider", t.Others())
}

// probeDiffered warns that a ratio is not corrected by the probe.
func probeDiffered(_ *Analysis, _ *Table, row *Row) string {
	if !row.Ratio.Shifted || row.Kind == sample.Control {
		return ""
	}
	return fmt.Sprintf("the probe of the CPU's speed differed from the control's by more than %.0f %%, so the ratio is not corrected by it", 100*probeShift)
}

// usedAsleep warns of CPU time that a contender used during the slices of others.
func usedAsleep(a *Analysis, t *Table, row *Row) string {
	worst := 0.0
	var asleep, inSlices time.Duration
	for _, r := range row.measured() {
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
	n, why := 0, ""
	for _, r := range row.measured() {
		if r.Alone != "" {
			n, why = n+1, r.Alone
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("measured alone in %d of %s: %s", n, loadreport.Plural(a.Blocks, "block"), why)
}

// stillWarming warns if requests cost more in the first half of the starts than in the second.
func stillWarming(a *Analysis, t *Table, row *Row) string {
	const margin = 0.05 // a smaller margin needs more slices
	var early, late stat.Starts
	p := pair(row.blocks, recordsLike(a.Run, a.Control(), t.Condition, row.blocks), Weight, false)
	for i, weights := range p.of {
		if len(weights) < 4 || row.Kind == sample.Control {
			continue
		}
		ratios := make([]float64, len(weights))
		for j, weight := range weights {
			ratios[j] = weight / p.than[i][j]
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
