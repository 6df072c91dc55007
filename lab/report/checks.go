package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/tarehq/tare/lab/trial"

	"github.com/tarehq/tare/load"
)

// Bounds at which a reader is warned.
const (
	// littleBound is how far connections may differ from rate times mean latency.
	// In a closed loop they are equal, if what was measured is what happened.
	littleBound = 0.05
	// othersBound is the share of a CPU that programs which are not measured
	// may have used.
	othersBound = 0.15
	// bytesBound is how far bytes per response may be from those proved: at the
	// ends of the measured time connections are in the middle of a response.
	bytesBound = 0.02
)

// check adds warnings to rows.
func (a *Analysis) check() {
	for i := range a.Tables {
		t := &a.Tables[i]
		for j := range t.Rows {
			row := &t.Rows[j]
			for _, c := range allChecks() {
				if warning := c(a, t, row); warning != "" {
					row.Warnings = append(row.Warnings, warning)
				}
			}
		}
	}
}

// allChecks each look at a row and return a warning, or nothing.
func allChecks() []func(*Analysis, *Table, *Row) string {
	return []func(*Analysis, *Table, *Row) string{
		failures, tooFewBlocks, twinMisses, littlesLaw, generatorBound, rateMissed, pastKnee, errorsSeen, stillWarming, usedAsleep, measuredAlone, disturbed, probeDiffered, bytesChanged, connectionsLost, othersBusy,
	}
}

func (a *Analysis) records(t *Table, row *Row) (records []*trial.Record) {
	for _, r := range perBlock(a.Run, row.Entrant, t.Condition) {
		if r != nil {
			records = append(records, r)
		}
	}
	return records
}

func failures(a *Analysis, _ *Table, row *Row) string {
	if len(row.Failures) == 0 {
		return ""
	}
	first, _, _ := strings.Cut(row.Failures[0], "\n")
	return fmt.Sprintf("%d of %d trials failed: %s", len(row.Failures), a.Blocks, first)
}

func tooFewBlocks(a *Analysis, _ *Table, row *Row) string {
	if row.Trials == 0 || row.Ratio.Known() || row.Kind == Control || row.Disturbed {
		return ""
	}
	return fmt.Sprintf("measured in %d of %s: too few for an interval", row.Trials, blocksText(a.Blocks))
}

// twinMisses is the check on all intervals at once: the twin is the control, so an
// interval of its ratio that misses 1 is wrong.
func twinMisses(_ *Analysis, _ *Table, row *Row) string {
	if row.Kind != Twin || !row.Ratio.Known() || row.Ratio.Contains(1) {
		return ""
	}
	off := max(math.Abs(row.Ratio.Lo-1), math.Abs(row.Ratio.Hi-1))
	return fmt.Sprintf("the twin is the control, yet its interval misses 1: trust no difference of less than %.0f %%", 100*off)
}

func littlesLaw(a *Analysis, t *Table, row *Row) string {
	if !t.Saturated() {
		return "" // connections rest
	}
	worst := 0.0
	for _, r := range a.records(t, row) {
		inside := r.Load.PerSecond()*r.Load.Latency.Mean().Seconds() + connecting(r)
		// At the end of a slice connections fall idle one by one.
		busy := float64(t.Connections) * (1 - r.Load.Drained/2/r.Load.Seconds)
		worst = max(worst, math.Abs(inside/busy-1))
	}
	if worst <= littleBound {
		return ""
	}
	return fmt.Sprintf("Little's law is off by %.0f %%: rate times latency is not the number of connections", 100*worst)
}

// connecting is how many connections were being made at a time.
func connecting(r *trial.Record) float64 {
	if r.Load.Connects == 0 || r.Load.Seconds == 0 || r.Load.Connect == nil {
		return 0
	}
	return float64(r.Load.Connects) / r.Load.Seconds * r.Load.Connect.Mean().Seconds()
}

func generatorBound(_ *Analysis, t *Table, row *Row) string {
	if row.Busy < load.BusyBound || !t.Saturated() { // rateMissed says it otherwise
		return ""
	}
	return fmt.Sprintf("the generator was %.0f %% busy: the rate may be its own, not the server's", 100*row.Busy)
}

func errorsSeen(a *Analysis, t *Table, row *Row) string {
	var n, of uint64
	first := ""
	for _, r := range a.records(t, row) {
		n += r.Load.Errors.Total()
		of += r.Load.Requests
		if first == "" {
			first = r.Load.Errors.First
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d errors and %d responses; the first error: %s", n, of, first)
}

func bytesChanged(a *Analysis, t *Table, row *Row) string {
	if row.Response == nil {
		return ""
	}
	for _, r := range a.records(t, row) {
		got := float64(r.Load.Bytes) / float64(r.Load.Requests)
		if math.Abs(got/float64(row.Response.Bytes)-1) > bytesBound {
			return fmt.Sprintf("%.0f bytes a response under load, %d when asked alone", got, row.Response.Bytes)
		}
	}
	return ""
}

func connectionsLost(a *Analysis, t *Table, row *Row) string {
	if row.Response != nil && !row.Response.KeepAlive {
		return "" // each is for one request, as its answer said
	}
	var n uint64
	for _, r := range a.records(t, row) {
		n += r.Load.Connects
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d connections had to be opened again while measuring", n)
}

// othersBusy warns of other programs beside whole trials. Those beside slices are disturbed's.
func othersBusy(a *Analysis, t *Table, row *Row) string {
	if row.Slices > 0 && !slices.ContainsFunc(a.records(t, row), func(r *trial.Record) bool { return len(r.Slices) == 0 }) {
		return ""
	}
	var others time.Duration
	var seconds float64
	for _, r := range a.records(t, row) {
		others += r.Others
		seconds += r.Load.Seconds
	}
	if seconds == 0 || others.Seconds()/seconds < othersBound {
		return ""
	}
	return fmt.Sprintf("the rest of the machine used %.0f %% of a CPU", 100*others.Seconds()/seconds)
}
