package explain

import (
	"fmt"
	"math"
)

// Thresholds of causes in a program's own work, not in its settings.
const (
	// ownBound is the smallest share of the control's weight that is explained. Smaller differences
	// come from where code happens to lie in memory.
	ownBound = 0.1
	// ownShare is the smallest share of the difference that is reported.
	ownShare = 0.1
	// chanceFactor is the multiple of the twin's difference that a contender's must reach to exceed
	// chance.
	chanceFactor = 2
)

// saved returns by how much the contender is lighter than the control. It returns 0 if that may be
// chance.
func (c *Case) saved() float64 {
	saved, control := -c.extraUs(), c.Control.WeightUs()
	if c.IsTwin || saved < ownBound*control ||
		!c.HasDifference && c.Twin != nil && saved <= chanceFactor*math.Abs(c.Twin.WeightUs()-control) {
		return 0
	}
	return saved
}

// serving returns the part that produces the response: the application, or a web server alone.
func (e *Evidence) serving() Part {
	if app := e.app(); app.Us() > 0 || len(e.Parts) == 0 {
		return app
	}
	return e.Parts[0]
}

// collectorUs returns the CPU time of the garbage collector.
func (p Part) collectorUs() float64 { return p.GCShare * p.Us() }

// lessCode compares user time, without that of the garbage collector, which is a cause of its own.
func lessCode(c *Case) Finding {
	of, control, saved := c.Of.serving(), c.Control.serving(), c.saved()
	us := control.UserUs - of.UserUs - max(0, control.collectorUs()-of.collectorUs())
	if saved == 0 || us < ownShare*saved {
		return Finding{}
	}
	return Finding{
		Sentence: fmt.Sprintf("its own code uses %s of user time per request (%s: %s): %s", micros(of.UserUs),
			c.Control.Title, micros(control.UserUs), shareText("", us, saved)),
		Explains: Weight, Share: clamp(us / saved),
	}
}

// enough is the share of a difference from which the control's settings explain it, and programs'
// own work is not examined.
const enough = 0.75

// controlFindings returns why the control is heavier, which explains why the contender is lighter.
func controlFindings(c *Case) (found []Finding) {
	if c.saved() == 0 {
		return nil
	}
	about := Case{Of: c.Control, Control: c.Of}
	for _, r := range Rules() {
		if r.explainsLess {
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
