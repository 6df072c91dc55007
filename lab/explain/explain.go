// Package explain turns what was measured of a contender into sentences that say why it
// differs from the control, and into the experiment that would show each sentence wrong.
//
// It is pure: Evidence goes in, Findings come out. A Rule looks at the evidence of the
// contender and of the control for one cause; what it needs to fire are named constants,
// each with its reason. What a cause costs is estimated from the counts; the
// counter-experiment measures it.
package explain

import (
	"cmp"
	"slices"
)

// Case is what there is to explain: how one contender differs from the control under one
// condition.
type Case struct {
	Of            Evidence
	Control       Evidence
	Twin          *Evidence // the control once more; nil if there is none, or Of is it
	IsTwin        bool      // Of is the control once more: what differs is chance
	HasDifference bool      // the interval of the weights' ratio bears out a difference; else it is asked of the twin
}

// Finding is a cause that the evidence bears out.
type Finding struct {
	Cause    Cause
	Sentence string   // for a person, with the numbers
	Numbers  []Number // the same for a program

	Explains  Quantity // what differs because of it
	Share     float64  // of that difference, 0 to 1: an estimate
	IsCounted bool     // the cause was counted; else it is inferred from its effects

	Counter Counter
}

// Number is one figure that a finding rests on.
type Number struct {
	What    string // with its unit, such as "connections to the application per request"
	Of      float64
	Control float64
}

// Quantity is what can differ between two contenders.
type Quantity string

// What findings explain.
const (
	Weight  Quantity = "weight" // CPU time per request
	Rate    Quantity = "rate"   // requests per second
	Latency Quantity = "latency"
)

// Counter is a counter-experiment: the one setting to change. If the cause is the right one,
// the difference goes. The zero value is of a cause that is no setting, such as how a program
// is written: it cannot be tested by changing one.
type Counter struct {
	Setting        Setting
	To             string // what it is changed to, for a person: "with ..."
	ChangesControl bool   // it is the control's that is changed, because the contender is the lighter one
}

// Setting is what a counter-experiment changes. A contender names by it how it is run
// otherwise.
type Setting string

// The settings of the counter-experiments.
const (
	BackendKeepAlive Setting = "backend-keepalive" // connections to the application are kept
	ClientKeepAlive  Setting = "client-keepalive"  // connections of clients are kept
	NoDelay          Setting = "nodelay"           // TCP_NODELAY is set, or an answer is one write
	Hop              Setting = "hop"               // nothing stands before the application
	Buffers          Setting = "buffers"           // an answer fits into memory
	Workers          Setting = "workers"           // as many workers as cores
	Log              Setting = "log"               // no access log
	Header           Setting = "header"            // the control's fields
	Protocol         Setting = "protocol"          // HTTP in place of FastCGI
	Writes           Setting = "writes"            // one write an answer
	Connections      Setting = "connections"       // fewer connections
	Backlog          Setting = "backlog"           // a longer queue, or kept connections
	Memory           Setting = "memory"            // the collector runs less often: GOGC
	Generator        Setting = "generator"         // more cores for the generator
	Repeat           Setting = "repeat"            // the same again on a quiet machine
)

// Settings returns all settings.
func Settings() []Setting {
	return []Setting{
		BackendKeepAlive, ClientKeepAlive, NoDelay, Hop, Buffers, Workers, Log, Header, Protocol, Writes, Connections, Backlog, Memory,
		Generator, Repeat,
	}
}

// Cause is why a contender differs.
type Cause string

// The causes that there are rules for.
const (
	NoBackendKeepAlive Cause = "no keep-alive to the application"
	NoClientKeepAlive  Cause = "no keep-alive to clients"
	DelayedACK         Cause = "Nagle's algorithm and delayed acknowledgements"
	ExtraHop           Cause = "a hop more"
	BufferedToDisk     Cause = "answers buffered on disk"
	OneCore            Cause = "one core is used of several"
	Oversubscribed     Cause = "more workers than cores"
	AccessLog          Cause = "a log line per request"
	LongerHead         Cause = "longer answers"
	FastCGIRecords     Cause = "FastCGI"
	SmallWrites        Cause = "many small writes"
	GeneratorBound     Cause = "the generator is the limit"
	Queueing           Cause = "queueing, not service"
	ConnectFailures    Cause = "connections refused or retried"
	Allocation         Cause = "memory allocated per request"
	Noise              Cause = "the machine was not quiet"
	ConnectionWork     Cause = "more calls for each connection"
	LessCode           Cause = "less work in its own code"
	MoreCode           Cause = "more work in its own code"
	LessKernel         Cause = "fewer system calls"
	LessSwitching      Cause = "fewer context switches"
	LessMemory         Cause = "less memory to collect"
)

// A Rule looks for one cause. It returns no sentence if it does not find it.
type Rule struct {
	Cause Cause
	find  func(c *Case) Finding

	// last rules are asked only if no other has found anything that matters: they look at consequences
	// that other causes have, too.
	last bool

	// light rules say why a contender is lighter; the others why it is heavier, or slower.
	light bool
}

// Rules returns all rules. Of those that explain as much, the earlier one is named first.
func Rules() []Rule {
	return []Rule{
		{Cause: ConnectFailures, find: connectFailures},
		{Cause: NoBackendKeepAlive, find: noBackendKeepAlive},
		{Cause: NoClientKeepAlive, find: noClientKeepAlive},
		{Cause: DelayedACK, find: delayedACK},
		{Cause: BufferedToDisk, find: bufferedToDisk},
		{Cause: Allocation, find: allocation},
		{Cause: SmallWrites, find: smallWrites},
		{Cause: AccessLog, find: accessLog},
		{Cause: Oversubscribed, find: oversubscribed},
		{Cause: OneCore, find: oneCore},
		{Cause: ExtraHop, find: extraHop},
		{Cause: FastCGIRecords, find: fastCGIRecords},
		{Cause: LongerHead, find: longerHead},
		{Cause: ConnectionWork, find: connectionWork},
		{Cause: GeneratorBound, find: generatorBound},
		{Cause: LessCode, find: lessCode, light: true},
		{Cause: LessKernel, find: lessKernel, light: true},
		{Cause: LessMemory, find: lessMemory, light: true},
		{Cause: LessSwitching, find: lessSwitching, light: true},
		{Cause: Noise, find: noise, last: true},
		{Cause: Queueing, find: queueing, last: true},
		{Cause: MoreCode, find: moreCode, last: true},
	}
}

// minShare is from which share of a difference on a cause is named beside a greater one.
const minShare = 0.05

// Explain returns what the rules find, that first which explains most.
func Explain(c Case) []Finding {
	found := turned(&c)
	explained := 0.0
	for _, f := range found {
		explained += f.Share
	}
	for _, last := range []bool{false, true} {
		if last && slices.ContainsFunc(found, func(f Finding) bool { return f.Share >= minShare || f.Explains != Weight }) {
			break
		}
		for _, r := range Rules() {
			if r.last != last || r.light && explained >= enough {
				continue
			}
			if f := r.find(&c); f.Sentence != "" {
				f.Cause = r.Cause
				found = append(found, f)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b Finding) int { return cmp.Compare(b.Share, a.Share) })
	return slices.DeleteFunc(found, func(f Finding) bool { return f.Share < minShare && f.Share < found[0].Share })
}
