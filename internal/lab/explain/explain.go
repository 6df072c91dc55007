// Package explain names the causes of a difference between a contender and the control. Each cause
// comes with the counter-experiment that can refute it.
//
// It is pure: Evidence goes in, Findings come out. A Rule compares the evidence of the contender
// with that of the control and looks for one cause. Its thresholds are named constants with their
// reasons. The share that a cause explains is estimated from counts; the counter-experiment
// measures it.
//
// Words: the weight of a contender is its CPU time per request. A cause is a rule's explanation, a
// finding is a cause with its figures, and a counter-experiment changes the one setting that would
// remove the cause.
package explain

import (
	"cmp"
	"slices"
)

// Case is the difference to explain: one contender and the control under one condition.
type Case struct {
	Of            Evidence
	Control       Evidence
	Twin          *Evidence // the second copy of the control; nil if there is none or Of is the twin
	IsTwin        bool      // Of is the twin: any difference is chance
	HasDifference bool      // the interval of the weights' ratio excludes 1; otherwise the twin is consulted
}

// Finding is a cause that the evidence supports.
type Finding struct {
	Cause    Cause
	Sentence string // with the figures, for a reader

	Explains Quantity // what the cause changes
	Share    float64  // estimated share of the difference, 0 to 1

	Counter Counter
}

// Quantity is what can differ between two contenders.
type Quantity string

// The quantities that findings explain.
const (
	Weight  Quantity = "weight" // CPU time per request
	Rate    Quantity = "rate"   // requests per second
	Latency Quantity = "latency"
)

// Counter is a counter-experiment: the one setting to change. If the cause is right, the difference
// disappears.
type Counter struct {
	Setting        Setting
	To             string // the new value for a reader, as it stands after "with"
	ChangesControl bool   // the control's setting is changed, because the contender is the lighter one
}

// Setting is the name of what a counter-experiment changes. The toggles in a contender.yaml use
// these names.
type Setting string

// The settings of the counter-experiments.
const (
	BackendKeepAlive Setting = "backend-keepalive" // keep-alive to the application
	ClientKeepAlive  Setting = "client-keepalive"  // keep-alive to clients
	NoDelay          Setting = "nodelay"           // TCP_NODELAY, or one write per response
	Buffers          Setting = "buffers"           // responses fit into memory
	Workers          Setting = "workers"           // as many workers as cores
	Log              Setting = "log"               // no access log
	Writes           Setting = "writes"            // one write per response
	Memory           Setting = "memory"            // a garbage collector that runs less often: GOGC
)

// Settings returns all settings.
func Settings() []Setting {
	return []Setting{
		BackendKeepAlive, ClientKeepAlive, NoDelay, Buffers, Workers, Log, Writes, Memory,
	}
}

// Cause is a reason for a difference.
type Cause string

// The causes, each with a rule.
const (
	NoBackendKeepAlive Cause = "no keep-alive to the application"
	NoClientKeepAlive  Cause = "no keep-alive to clients"
	DelayedACK         Cause = "Nagle's algorithm and delayed acknowledgments"
	BufferedToDisk     Cause = "responses buffered on disk"
	OneCore            Cause = "only one core used"
	Oversubscribed     Cause = "more workers than cores"
	AccessLog          Cause = "a log line per request"
	SmallWrites        Cause = "many small writes"
	Allocation         Cause = "memory allocated per request"
)

// A Rule looks for one cause of why a contender is heavier or slower. A finding without a sentence
// means that it did not find the cause.
type Rule struct {
	Cause Cause
	find  func(c *Case) Finding
}

// Rules returns all rules. If two explain equal shares, the earlier one is reported first.
func Rules() []Rule {
	return []Rule{
		{Cause: NoBackendKeepAlive, find: noBackendKeepAlive},
		{Cause: NoClientKeepAlive, find: noClientKeepAlive},
		{Cause: DelayedACK, find: delayedACK},
		{Cause: BufferedToDisk, find: bufferedToDisk},
		{Cause: Allocation, find: allocation},
		{Cause: SmallWrites, find: smallWrites},
		{Cause: AccessLog, find: accessLog},
		{Cause: Oversubscribed, find: oversubscribed},
		{Cause: OneCore, find: oneCore},
	}
}

// minShare is the smallest share of a difference that is reported beside a larger one.
const minShare = 0.05

// Explain returns the findings of all rules, the largest share first.
func Explain(c Case) []Finding {
	found := controlFindings(&c)
	for _, r := range Rules() {
		if f := r.find(&c); f.Sentence != "" {
			f.Cause = r.Cause
			found = append(found, f)
		}
	}
	slices.SortStableFunc(found, func(a, b Finding) int { return cmp.Compare(b.Share, a.Share) })
	return slices.DeleteFunc(found, func(f Finding) bool { return f.Share < minShare && f.Share < found[0].Share })
}
