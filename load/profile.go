package load

import (
	"math"
	"math/rand/v2"
	"sort"
	"time"
)

// Step is a part of a Pace: the rate changes linearly from From to To, in requests per second.
type Step struct {
	From float64       `json:"fromPerSecond"`
	To   float64       `json:"toPerSecond"`
	For  time.Duration `json:"forNs,omitempty"`
}

// Pace schedules requests independently of responses: an open loop. The zero value is a closed
// loop.
type Pace struct {
	// Steps follow each other from the start of the warm-up. The To of the last one applies until
	// the end.
	Steps []Step `json:"steps,omitempty"`
	// Poisson makes requests arrive at random, as those of many independent users do, at the rate
	// of the steps. Otherwise they are evenly spaced.
	Poisson bool `json:"poisson,omitempty"`
	// Seed makes a Poisson pace reproducible. 0 means a random seed.
	Seed uint64 `json:"seed,omitempty"`
}

// Constant returns a Pace of constant rate, in requests per second.
func Constant(rate float64) Pace { return Pace{Steps: []Step{{From: rate, To: rate}}} }

func (p *Pace) open() bool { return len(p.Steps) > 0 }

func (p *Pace) check() error {
	top := 0.0
	for _, s := range p.Steps {
		for _, rate := range []float64{s.From, s.To} {
			if !(rate >= 0) || rate > maxRate {
				return badPlan("rate of %v requests/s: want 0 to %d", rate, maxRate)
			}
			top = max(top, rate)
		}
		if s.For < 0 {
			return badPlan("rate step of %v: want a duration of 0 or more", s.For)
		}
	}
	if p.open() && top == 0 {
		return badPlan("rate of 0 requests/s: want a rate above 0")
	}
	return nil
}

const maxRate = 1_000_000_000 // limits a Plan's rate to one request per nanosecond

// rateProfile is the steps of a Pace, integrated: how many requests are due by a given time.
type rateProfile []ramp

type ramp struct {
	from, slope float64 // rate at its start, and the rate's growth per second
	start       float64 // seconds since the start of the schedule
	length      float64 // seconds; infinite for the last
	before      float64 // requests due before it
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

// timeOf returns the time, in nanoseconds since the start, by which n requests are due. It may be
// math.MaxInt64, which means never.
func (p rateProfile) timeOf(n float64) int64 {
	s := p[sort.Search(len(p)-1, func(i int) bool { return p[i+1].before > n })]
	// This solves from·t + slope·t²/2 = n - before in a form without cancellation.
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

// schedule is when the requests of one worker are due. The requests of all workers together are
// evenly spaced.
type schedule struct {
	profile rateProfile
	random  *rand.Rand // nil unless the Pace is Poisson
	gap     float64    // requests of the whole run per request of this worker
	first   float64    // first value of next, if not random
	next    float64    // number of the next request among those of the whole run
	due     int64      // when the next one is due, in nanoseconds since the start
}

// newSchedule returns the schedule of worker i of n, which has the given share of the connections.
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

// restart restarts the steps. The random sequence continues.
func (s *schedule) restart() {
	s.next = s.first
	if s.random != nil {
		s.next = s.random.ExpFloat64() * s.gap
	}
	s.due = s.profile.timeOf(s.next)
}

func (s *schedule) advance() {
	step := s.gap
	if s.random != nil {
		step *= s.random.ExpFloat64()
	}
	s.next += step
	s.due = s.profile.timeOf(s.next)
}
