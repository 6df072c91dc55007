package explain

import (
	"fmt"
	"math"
)

// What a delayed acknowledgement looks like.
const (
	// delayedUs is how long Linux waits at least before it acknowledges data for which there
	// is no answer to send (TCP_DELACK_MIN).
	delayedUs = 40_000

	// delayedBound is from which share of delayed responses on that is a cause: fewer can be
	// those of a queue.
	delayedBound = 0.2

	// idleBound is below which share of their processors servers have nothing to do: a
	// response that takes 40 ms then has waited for something else than its turn.
	idleBound = 0.5
)

// Band is a range of durations, in microseconds.
type Band struct{ FromUs, ToUs float64 }

// Holds reports whether a duration is in the range.
func (b Band) Contains(us float64) bool { return us >= b.FromUs && us <= b.ToUs }

// Delayed is how long a response takes that waits for a delayed acknowledgement. It may wait a tick of the
// kernel's clock longer, which is 10 ms at most.
func DelayedACKs() Band { return Band{0.95 * delayedUs, 1.3 * delayedUs} }

// Retried is how long a connection takes whose first packet was sent again, which Linux does after one
// second (RFC 6298, 2.1).
func RetriedConnects() Band { return Band{0.95e6, math.Inf(1)} }

func delayedACK(c *Case) Finding {
	if c.Of.DelayedShare-c.Control.DelayedShare < delayedBound || c.Of.Cores == 0 || c.Of.used() > idleBound*float64(c.Of.Cores) {
		return Finding{}
	}
	writes := ""
	if n := c.Of.calls(writeCalls()); n >= 1.5 {
		writes = fmt.Sprintf(", and an answer is %s writes", count(n))
	}
	return Finding{
		Sentence: fmt.Sprintf("%s of responses take about 40 ms while the processors are %s idle%s: the second write of an answer waits for the acknowledgement of the first, which clients delay",
			percent(c.Of.DelayedShare), percent(1-c.Of.used()/float64(c.Of.Cores)), writes),
		Numbers: []Number{
			{"share of responses that take about 40 ms", c.Of.DelayedShare, c.Control.DelayedShare},
			{"processors busy", c.Of.used(), c.Control.used()},
		},
		Explains: Latency, Share: clamp(c.Of.DelayedShare * delayedUs / (c.Of.MeanUs - c.Control.MeanUs)),
		Counter: Counter{Setting: NoDelay, To: "TCP_NODELAY"},
	}
}

const (
	// queueBound is by how much latencies must differ to be asked about.
	queueBound = 1.25
	// fullBound is from which share of their processors on servers are busy.
	fullBound = 0.85
	// littleBound is how far latency may be from connections divided by rate.
	littleBound = 0.05
)

// queueing tells the time in a queue from the time it takes to serve: in a closed loop with
// busy servers latency is connections divided by rate (Little's law), whatever the server
// does.
func queueing(c *Case) Finding {
	expected := float64(c.Of.Connections) / c.Of.PerSecond * 1e6
	little := c.Of.MeanUs/expected - 1
	if c.Of.PerSecond <= 0 || c.Of.MeanUs < queueBound*c.Control.MeanUs || c.Of.Cores == 0 ||
		c.Of.used() < fullBound*float64(c.Of.Cores) || little < -littleBound || little > littleBound || c.Of.WeightUs() > c.Of.MeanUs/2 {
		return Finding{}
	}
	return Finding{
		Sentence: fmt.Sprintf("of its latency of %s a request is served for %s: the rest is the queue of %d connections before busy processors",
			micros(c.Of.MeanUs), micros(c.Of.WeightUs()), c.Of.Connections),
		Numbers:  []Number{{"mean latency in µs", c.Of.MeanUs, c.Control.MeanUs}, {"connections divided by rate, in µs", expected, 0}},
		Explains: Latency, Share: 1 - c.Of.WeightUs()/c.Of.MeanUs,
		Counter: Counter{Setting: Connections, To: "one connection for each core"},
	}
}
