package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Thresholds of causes in a program's own work, not in its settings.
const (
	// ownBound is the smallest share of the control's weight that is explained. Smaller differences
	// come from where code happens to lie in memory.
	ownBound = 0.1
	// ownShare is the smallest share of the difference that is reported.
	ownShare = 0.1

	// fewerCalls is the number of saved system calls per request from which they are a cause.
	fewerCalls = 0.2
	// calledFewer is the smallest difference at which a system call is named.
	calledFewer = 0.05
	// namedCalls is the number of named system calls.
	namedCalls = 4
)

// differs returns by how much the contender is heavier than the control, negative if it is lighter,
// and 0 if that may be chance.
func (c *Case) differs() float64 {
	extra, control := c.extraUs(), c.Control.WeightUs()
	if c.IsTwin || abs(extra) < ownBound*control {
		return 0
	}
	if !c.HasDifference && c.Twin != nil && abs(extra) <= chanceFactor*abs(c.Twin.WeightUs()-control) {
		return 0
	}
	return extra
}

func abs(v float64) float64 { return max(v, -v) }

// saved returns by how much the contender is lighter, or 0.
func (c *Case) saved() float64 { return max(0, -c.differs()) }

// serving returns the part that produces the response: the application, or a web server alone.
func (e *Evidence) serving() Part {
	if app := e.app(); app.Us() > 0 || len(e.Parts) == 0 {
		return app
	}
	return e.Parts[0]
}

// collectorUs returns the CPU time of the garbage collector.
func (p Part) collectorUs() float64 { return p.GCShare * p.Us() }

// savingFinding returns a finding of CPU time that a lighter contender saves, measured or
// estimated. It returns none if the share is below ownShare.
func (c *Case) savingFinding(us float64, measured bool, sentence string) Finding {
	saved := c.saved()
	if saved == 0 || us < ownShare*saved {
		return Finding{}
	}
	about := ""
	if !measured {
		about = "about "
	}
	return Finding{
		Sentence: sentence + ": " + shareText(about, us, saved, "difference"),
		Explains: Weight, Share: clamp(us / saved),
	}
}

// lessCode compares user time, without that of the garbage collector, which is a cause of its own.
func lessCode(c *Case) Finding {
	of, control := c.Of.serving(), c.Control.serving()
	us := control.UserUs - of.UserUs - max(0, control.collectorUs()-of.collectorUs())
	return c.savingFinding(us, true, ownCode(c))
}

func ownCode(c *Case) string {
	return fmt.Sprintf("its own code uses %s of user time per request (%s: %s)",
		micros(c.Of.serving().UserUs), c.Control.Title, micros(c.Control.serving().UserUs))
}

// moreCode explains a heavier contender if no other rule does.
func moreCode(c *Case) Finding {
	extra, us := c.differs(), c.Of.serving().UserUs-c.Control.serving().UserUs
	if extra <= 0 || us < ownShare*extra {
		return Finding{}
	}
	how := ""
	if c.Of.Interpreter != "" {
		how = ", as it is interpreted by " + c.Of.Interpreter
	}
	return c.extra(us, ownCode(c)+how, Counter{})
}

// lessKernel compares system time and names the system calls that the contender saves.
func lessKernel(c *Case) Finding {
	of, control := c.Of.serving(), c.Control.serving()
	us := control.SysUs - of.SysUs
	if of.Calls == nil || control.Calls == nil {
		return c.savingFinding(us, true,
			fmt.Sprintf("the kernel uses %s of system time per request (%s: %s; system calls were not counted)",
				micros(of.SysUs), c.Control.Title, micros(control.SysUs)))
	}
	n, m := total(of.Calls), total(control.Calls)
	if m-n < fewerCalls {
		return Finding{}
	}
	return c.savingFinding(us, true,
		fmt.Sprintf("it makes %s system calls per request (%s: %s; %s), and the kernel uses %s instead of %s",
			count(n), c.Control.Title, count(m), c.savedCalls(), micros(of.SysUs), micros(control.SysUs)))
}

func total(calls map[string]float64) (n float64) {
	for _, of := range calls {
		n += of
	}
	return n
}

// savedCalls lists the system calls that the contender makes less often.
func (c *Case) savedCalls() string {
	of, control := byKind(c.Of.serving().Calls), byKind(c.Control.serving().Calls)
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(control)),
		func(name string) bool { return control[name]-of[name] < calledFewer })
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(control[b]-of[b], control[a]-of[a]) })
	var words []string
	for _, name := range names[:min(namedCalls, len(names))] {
		text := fmt.Sprintf("%s %s instead of %s", name, count(of[name]), count(control[name]))
		if c.readsNothing(name, of[name], control[name]) {
			text += ", the second of which finds no data"
		}
		words = append(words, text)
	}
	return strings.Join(words, "; ")
}

// Names of groups of system calls.
const (
	reads  = "reads"
	writes = "writes"
)

// byKind adds up the calls that read from a connection, and those that write to one.
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

// readsNothing reports whether the control reads twice per request where one read is enough. The
// lab's requests arrive in one piece, so a second read finds no data.
func (c *Case) readsNothing(name string, of, control float64) bool {
	const one, two = 1.25, 1.75
	return name == reads && of <= one && control >= two && control < two+0.5 &&
		len(c.Control.Parts) == 1 && c.Control.Protocol == HTTP && c.Control.Connects < fewConnections
}

// lessSwitching compares context switches.
func lessSwitching(c *Case) Finding {
	of, control := switches(&c.Of), switches(&c.Control)
	if control-of < extraWaits {
		return Finding{}
	}
	return c.savingFinding((control-of)*switchUs, false,
		fmt.Sprintf("a request causes %s context switches (%s: %s)", count(of), c.Control.Title, count(control)))
}

// lessMemory compares the statistics of Go's garbage collectors. Nothing is known of a collector
// that hardly ran.
func lessMemory(c *Case) Finding {
	of, control := c.Of.app(), c.Control.app()
	if control.AllocBytes == 0 {
		return Finding{}
	}
	its := "its own was not seen to run"
	if of.AllocBytes > 0 {
		its = fmt.Sprintf("its own uses %s, for %s", percent(of.GCShare), bytesText(of.AllocBytes))
	}
	f := c.savingFinding(control.collectorUs()-of.collectorUs(), false,
		fmt.Sprintf("the garbage collector of %s uses %s of the application's CPU time, for %s allocated per request; %s",
			c.Control.Title, percent(control.GCShare), bytesText(control.AllocBytes), its))
	f.Counter = Counter{Setting: Memory, To: "a garbage collector that runs a quarter as often in " + c.Control.Title,
		ChangesControl: true}
	return f
}

// enough is the share of a difference from which the control's settings explain it, and programs'
// own work is not examined.
const enough = 0.75

// controlFindings returns why the control is heavier, which explains why the contender is lighter.
// It leaves out rules whose cause a rule for lighter contenders covers.
func controlFindings(c *Case) (found []Finding) {
	if c.saved() == 0 {
		return nil
	}
	about := Case{Of: c.Control, Control: c.Of}
	for _, r := range Rules() {
		if r.isFallback || r.explainsLess || r.Cause == Allocation || r.Cause == ConnectionWork {
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
