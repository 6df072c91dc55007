package analyze

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/lab/sample"
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

// measured returns the records of the blocks that have one.
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

// reachedBound is the share of due requests that must receive a response.
const reachedBound = 0.99

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

// generatorDoubted returns why the figures may be the load generator's in most trials at a fixed
// rate.
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
