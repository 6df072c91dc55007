package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// What is asked of a contender that differs by what it does itself, and not by how it is set up.
const (
	// ownBound is from which share of the control's weight on a difference is asked about: less
	// comes from where code happens to lie in memory.
	ownBound = 0.1
	// ownShare is which share of the difference a part of it must be to be named.
	ownShare = 0.1

	// fewerCalls is from how many system calls per request fewer on they are a cause.
	fewerCalls = 0.2
	// calledFewer is from which difference on a call is named.
	calledFewer = 0.05
	// namedCalls is how many are.
	namedCalls = 4
)

// differs is by how much the contender is heavier than the control, or, below 0, lighter; 0 if
// that may be chance.
func (c *Case) differs() float64 {
	extra, control := c.extraUs(), c.Control.WeightUs()
	if c.IsTwin || abs(extra) < ownBound*control {
		return 0
	}
	if !c.HasDifference && c.Twin != nil && abs(extra) <= drowned*abs(c.Twin.WeightUs()-control) {
		return 0
	}
	return extra
}

func abs(v float64) float64 { return max(v, -v) }

// saved is by how much the contender is lighter; 0 if it is not.
func (c *Case) saved() float64 { return max(0, -c.differs()) }

// serving is what answers a request in the end: the application, or a web server alone.
func (e *Evidence) serving() Part {
	if app := e.app(); app.Us() > 0 || len(e.Parts) == 0 {
		return app
	}
	return e.Parts[0]
}

// collectorUs is the CPU time of a collector.
func (p Part) collectorUs() float64 { return p.GCShare * p.Us() }

// less makes a finding of what a lighter contender saves, measured or estimated, unless it is
// too little.
func (c *Case) less(us float64, measured bool, sentence string, numbers ...Number) Finding {
	saved := c.saved()
	if saved == 0 || us < ownShare*saved {
		return Finding{}
	}
	about := ""
	if !measured {
		about = "about "
	}
	return Finding{
		Sentence: sentence + ": " + part(about, us, saved, "that it costs less"),
		Numbers:  numbers, Explains: Weight, Share: clamp(us / saved), IsCounted: measured,
	}
}

// lessCode compares user time. The collector's is another cause's.
func lessCode(c *Case) Finding {
	of, control := c.Of.serving(), c.Control.serving()
	us := control.UserUs - of.UserUs - max(0, control.collectorUs()-of.collectorUs())
	return c.less(us, true, ownCode(c), Number{"user time in µs per request", of.UserUs, control.UserUs})
}

func ownCode(c *Case) string {
	return fmt.Sprintf("its own code takes %s of user time per request, where that of %s takes %s",
		micros(c.Of.serving().UserUs), c.Control.Title, micros(c.Control.serving().UserUs))
}

// moreCode is what is left to say of a contender that is heavier where nothing else was found.
func moreCode(c *Case) Finding {
	extra, us := c.differs(), c.Of.serving().UserUs-c.Control.serving().UserUs
	if extra <= 0 || us < ownShare*extra {
		return Finding{}
	}
	how := ""
	if c.Of.Interpreter != "" {
		how = ", being interpreted by " + c.Of.Interpreter
	}
	return Finding{
		Sentence: ownCode(c) + how + c.ofThe(us),
		Numbers:  []Number{{"user time in µs per request", c.Of.serving().UserUs, c.Control.serving().UserUs}},
		Explains: Weight, Share: c.share(us), IsCounted: true,
	}
}

// lessKernel compares system time, with the calls that are spared.
func lessKernel(c *Case) Finding {
	of, control := c.Of.serving(), c.Control.serving()
	us := control.SysUs - of.SysUs
	if of.Calls == nil || control.Calls == nil {
		return c.less(us, true, fmt.Sprintf("the kernel takes %s of system time for it per request, where for %s it takes %s; which system calls it spares was not counted",
			micros(of.SysUs), c.Control.Title, micros(control.SysUs)), Number{"system time in µs per request", of.SysUs, control.SysUs})
	}
	n, m := total(of.Calls), total(control.Calls)
	if m-n < fewerCalls {
		return Finding{}
	}
	return c.less(us, true, fmt.Sprintf("it makes %s system calls per request, where %s makes %s (%s), and the kernel takes %s for it and not %s",
		count(n), c.Control.Title, count(m), c.spared(), micros(of.SysUs), micros(control.SysUs)),
		Number{"system calls per request", n, m}, Number{"system time in µs per request", of.SysUs, control.SysUs})
}

func total(calls map[string]float64) (n float64) {
	for _, of := range calls {
		n += of
	}
	return n
}

// spared names the calls of which there are fewer.
func (c *Case) spared() string {
	of, control := byKind(c.Of.serving().Calls), byKind(c.Control.serving().Calls)
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(control)), func(name string) bool { return control[name]-of[name] < calledFewer })
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(control[b]-of[b], control[a]-of[a]) })
	var said []string
	for _, name := range names[:min(namedCalls, len(names))] {
		text := fmt.Sprintf("%s %s and not %s", name, count(of[name]), count(control[name]))
		if c.readsNothing(name, of[name], control[name]) {
			text += ", of which the second finds nothing"
		}
		said = append(said, text)
	}
	return strings.Join(said, "; ")
}

// Names under which calls that do the same are counted together.
const (
	reads  = "reads"
	writes = "writes"
)

// byKind counts calls that read from a connection together, and those that write to one.
func byKind(calls map[string]float64) map[string]float64 {
	all := make(map[string]float64)
	for name, n := range calls {
		switch {
		case slices.Contains(readCalls(), name):
			name = reads
		case slices.Contains(writeCalls(), name):
			name = writes
		}
		all[name] += n
	}
	return all
}

// readsNothing reports whether the control reads twice per request, where once is enough: a
// request of the lab's comes in one piece, so that a second read finds nothing.
func (c *Case) readsNothing(name string, of, control float64) bool {
	const one, two = 1.25, 1.75
	return name == reads && of <= one && control >= two && control < two+0.5 &&
		len(c.Control.Parts) == 1 && c.Control.Protocol == HTTP && c.Control.Connects < fewConnections
}

// lessSwitching compares how often threads lose their processor.
func lessSwitching(c *Case) Finding {
	of, control := switches(&c.Of), switches(&c.Control)
	if control-of < turns {
		return Finding{}
	}
	return c.less((control-of)*switchUs, false, fmt.Sprintf("a request has to change threads %s times, where with %s it is %s", count(of), c.Control.Title, count(control)),
		Number{"context switches per request", of, control})
}

// lessMemory compares what Go's collectors tell. Of one that hardly ran nothing is known.
func lessMemory(c *Case) Finding {
	of, control := c.Of.app(), c.Control.app()
	if control.AllocBytes == 0 {
		return Finding{}
	}
	its := "of its own none was seen to run"
	if of.AllocBytes > 0 {
		its = fmt.Sprintf("its own takes %s, for %s", percent(of.GCShare), bytesText(of.AllocBytes))
	}
	f := c.less(control.collectorUs()-of.collectorUs(), false, fmt.Sprintf("the collector of %s takes %s of the application's time, which allocates %s per request; %s",
		c.Control.Title, percent(control.GCShare), bytesText(control.AllocBytes), its),
		Number{"share of CPU time that the collector took", of.GCShare, control.GCShare}, Number{"bytes allocated per request", of.AllocBytes, control.AllocBytes})
	f.Counter = Counter{Setting: Memory, To: "a collector that runs a quarter as often in " + c.Control.Title, ChangesControl: true}
	return f
}

// enough is from which share of a difference on what is explained by how the control is set up
// leaves nothing to ask about what either does itself.
const enough = 0.75

// turned are the rules' findings of why the control is heavier: what a contender lacks explains
// why it is lighter. What the rules above say of every contender is left to them.
func turned(c *Case) (found []Finding) {
	if c.saved() == 0 {
		return nil
	}
	about := Case{Of: c.Control, Control: c.Of}
	for _, r := range Rules() {
		if r.last || r.light || r.Cause == Allocation || r.Cause == ConnectionWork {
			continue
		}
		if f := r.find(&about); f.Sentence != "" && f.Explains == Weight {
			f.Cause, f.Sentence = r.Cause, fmt.Sprintf("%s costs more: %s", c.Control.Title, f.Sentence)
			f.Counter.ChangesControl = true
			f.Counter.To += " in " + c.Control.Title
			found = append(found, f)
		}
	}
	return found
}
