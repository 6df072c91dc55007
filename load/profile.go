package load

import (
	"math"
	"math/rand/v2"
	"time"
)

// Step is a part of a plan's pace: for a time the rate goes evenly from one value to
// another, in requests each second.
type Step struct {
	From, To float64
	For      time.Duration
}

// Pace says when requests are due, whether or not the last ones were answered: an open loop.
// The zero value is none: a closed loop.
type Pace struct {
	// Steps follow each other, from the beginning of the warm-up on. After the last its
	// To holds.
	Steps []Step
	// Poisson has requests come at random, as those of many independent users do, at the
	// rate of the steps. Otherwise they are evenly spaced.
	Poisson bool
	// Seed makes a Poisson pace come again. 0 is another each time.
	Seed uint64
}

// Constant is a pace of always the same rate.
func Constant(rate float64) Pace { return Pace{Steps: []Step{{From: rate, To: rate}}} }

func (p *Pace) open() bool { return len(p.Steps) > 0 }

func (p *Pace) check() error {
	top := 0.0
	for _, s := range p.Steps {
		for _, rate := range []float64{s.From, s.To} {
			if !(rate >= 0) || rate > maxRate {
				return badPlan("a rate of %v requests a second: want a number up to %d", rate, maxRate)
			}
			top = max(top, rate)
		}
		if s.For < 0 {
			return badPlan("a step of the rate takes %v: want a time", s.For)
		}
	}
	if p.open() && top == 0 {
		return badPlan("a rate of 0 requests a second asks for nothing")
	}
	return nil
}

// maxRate bounds the rate of a plan: a request each nanosecond.
const maxRate = 1_000_000_000

// profile is a pace's steps, worked out: how many requests are due by when.
type rateProfile []ramp

type ramp struct {
	from, slope float64 // rate at its beginning, and by how much that grows each second
	start       float64 // seconds since the beginning
	length      float64 // seconds; the last has no end
	before      float64 // requests that were due before it
}

func newProfile(steps []Step) rateProfile {
	var p rateProfile
	at, n := 0.0, 0.0
	for _, s := range steps {
		length := s.For.Seconds()
		if length == 0 {
			continue
		}
		p = append(p, ramp{from: s.From, slope: (s.To - s.From) / length, start: at, length: length, before: n})
		at += length
		n += (s.From + s.To) / 2 * length
	}
	return append(p, ramp{from: steps[len(steps)-1].To, start: at, length: math.Inf(1), before: n})
}

// when returns the time, in nanoseconds since the beginning, by which n requests are due. That
// may be never.
func (p rateProfile) timeOf(n float64) int64 {
	i := 0
	for i+1 < len(p) && p[i+1].before <= n {
		i++
	}
	s := p[i]
	// from·t + slope·t²/2 = n - before, solved so that nothing cancels.
	rest := n - s.before
	t := 0.0
	if rest > 0 {
		t = 2 * rest / (s.from + math.Sqrt(max(0, s.from*s.from+2*s.slope*rest)))
	}
	ns := (s.start + min(t, s.length)) * float64(time.Second)
	if !(ns < math.MaxInt64) {
		return math.MaxInt64
	}
	return int64(ns)
}

// by returns how many requests are due by a time.
func (p rateProfile) dueBy(ns int64) float64 {
	at := float64(ns) / float64(time.Second)
	i := 0
	for i+1 < len(p) && p[i+1].start <= at {
		i++
	}
	t := at - p[i].start
	return p[i].before + p[i].from*t + p[i].slope*t*t/2
}

// schedule is when the requests of one worker are due. Those of a run's workers are spaced
// evenly together.
type schedule struct {
	profile rateProfile
	random  *rand.Rand // of a Poisson pace
	gap     float64    // requests of the whole run for each of the worker's
	first   float64    // in requests of the whole run, without a random pace
	next    float64    // likewise
	due     int64      // when the next one is due, in nanoseconds since the beginning
}

// newSchedule makes the schedule of worker i of n, which has a share of the connections.
func newSchedule(p *Pace, share float64, i, n int) *schedule {
	s := &schedule{profile: newProfile(p.Steps), gap: 1 / share}
	s.first = (float64(i) + 0.5) / float64(n) * s.gap
	if p.Poisson {
		seed := p.Seed
		if seed == 0 {
			seed = rand.Uint64()
		}
		s.random = rand.New(rand.NewPCG(seed, uint64(i)))
	}
	s.restart()
	return s
}

// restart has the steps begin anew. Random numbers go on.
func (s *schedule) restart() {
	s.next = s.first
	if s.random != nil {
		s.next = s.random.ExpFloat64() * s.gap
	}
	s.due = s.profile.timeOf(s.next)
}

// advance goes on to the next request.
func (s *schedule) advance() {
	step := s.gap
	if s.random != nil {
		step *= s.random.ExpFloat64()
	}
	s.next += step
	s.due = s.profile.timeOf(s.next)
}
