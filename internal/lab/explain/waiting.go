package explain

import (
	"fmt"
)

// Thresholds of delayed acknowledgments.
const (
	// delayedUs is how long Linux waits at least before it acknowledges data to which it has
	// nothing to send (TCP_DELACK_MIN).
	delayedUs = 40_000

	// delayedBound is the share of delayed responses from which they are a cause. Fewer may come
	// from a queue.
	delayedBound = 0.2

	// idleBound is the share of their processors that idle servers use at most. A response that
	// takes 40 ms did then not wait for a processor.
	idleBound = 0.5
)

// Band is a range of durations, in microseconds.
type Band struct{ FromUs, ToUs float64 }

// Contains reports whether a duration is in the range.
func (b Band) Contains(us float64) bool { return us >= b.FromUs && us <= b.ToUs }

// DelayedACKs returns how long a response takes that waits for a delayed acknowledgment. It may
// wait one tick of the kernel's clock longer, at most 10 ms.
func DelayedACKs() Band { return Band{0.95 * delayedUs, 1.3 * delayedUs} }

func delayedACK(c *Case) Finding {
	if c.Of.DelayedShare-c.Control.DelayedShare < delayedBound || c.Of.Cores == 0 ||
		c.Of.used() > idleBound*float64(c.Of.Cores) {
		return Finding{}
	}
	writes := ""
	if n := c.Of.calls(writeCalls()); n >= 1.5 {
		writes = fmt.Sprintf(", and a response takes %s writes", count(n))
	}
	return Finding{
		Sentence: fmt.Sprintf("%s of responses take about 40 ms while the processors are %s idle%s: the second write of a response waits for the acknowledgment of the first, which clients delay",
			percent(c.Of.DelayedShare), percent(1-c.Of.used()/float64(c.Of.Cores)), writes),
		Explains: Latency, Share: clamp(c.Of.DelayedShare * delayedUs / (c.Of.MeanUs - c.Control.MeanUs)),
		Counter: Counter{Setting: NoDelay, To: "TCP_NODELAY"},
	}
}
