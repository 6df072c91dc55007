package load

import (
	"cmp"
	"context"
	"time"
)

// What a Search's zero fields mean.
const (
	DefaultStep          = 5 * time.Second
	DefaultPrecision     = 0.02
	DefaultConfirmations = 3
	DefaultRuns          = 50
)

// Search finds the highest rate at which a server keeps to a goal. The zero value works: its
// goal is that all that is due is answered.
//
// A rate holds if a run at it keeps to the goal, answers 99 of 100 requests that were due, and
// the generator was not busy. One run that does not hold is made again, and the second counts:
// a machine is disturbed now and then. Where the generator is to blame for both, because it was
// busy or the goal was missed by no more than it was late, nothing is learnt of the server: the
// search ends a little below, and says so. The rate is doubled until it does not hold, or divided by
// four until it does; then the gap is halved until it is narrow. The rate found is confirmed by
// more runs, and lowered if most of them do not hold.
type Search struct {
	Goal Goal
	// From is the first rate to try, in requests each second; 0 is half of what a short closed
	// loop reaches. To is the highest; no bound if 0.
	From, To float64
	// Step is how long each run measures; DefaultStep if 0. The plan's Warmup comes before it,
	// or a fifth of the step, so that what the last one left undone is over.
	Step time.Duration
	// Precision ends the search when the lowest rate that failed is at most this share above
	// the highest that held; DefaultPrecision if 0.
	Precision float64
	// Confirmations is how many runs at the rate found there are at most, of which more than
	// half must hold; DefaultConfirmations if 0.
	Confirmations int
	// Runs bounds how many runs there are in all; DefaultRuns if 0.
	Runs int

	// Tried is told of each try when it is over, by the goroutine that called Find. It may be
	// nil.
	Tried func(Try)
	// Run carries out a plan; the function Run if nil. It is for those that run plans in
	// another way.
	Run func(context.Context, Plan) (*Result, error)
}

// Try is one run of a Search.
type Try struct {
	Rate    float64 `json:"rate"` // asked for, in requests each second; 0 is the closed loop
	Purpose Purpose `json:"purpose"`
	Held    bool    `json:"held"`
	// Why says why it did not hold. Generator is whether the generator is to blame.
	Why       []string `json:"why,omitempty"`
	Generator bool     `json:"generatorBound,omitempty"`

	Achieved float64       `json:"achieved"` // responses each second
	P50      time.Duration `json:"p50Ns"`    // since due
	P99      time.Duration `json:"p99Ns"`
	// ErrorShare is the share of errors, and of what was not answered, in what was asked. What is
	// under way at the end does not count, unless that is more or has taken longer than usual.
	ErrorShare float64 `json:"errorShare"`
	Result     *Result `json:"result"`
}

// Purpose is what a Try is for.
type Purpose string

const (
	ToStart   Purpose = "start"   // to find a rate to begin with
	ToBracket Purpose = "bracket" // to find one that holds and one that does not
	ToBisect  Purpose = "bisect"  // to bring them together
	ToConfirm Purpose = "confirm" // to make sure of the one that holds
)

// Found is what a Search has found.
type SearchResult struct {
	URL     string  `json:"url"`
	Goal    Goal    `json:"goal"`
	Verdict Verdict `json:"verdict"`
	// Holds is the highest rate that was confirmed; 0 if there is none.
	Holds float64 `json:"holds"`
	// Fails is the lowest rate that did not hold, whoever is to blame; 0 if there is none.
	Fails float64 `json:"fails"`
	Tries []Try   `json:"tries"` // in order
}

// Verdict is how a Search ended.
type Verdict string

const (
	Settled        Verdict = "settled"         // Holds holds, Fails does not
	AllHolds       Verdict = "all holds"       // even the highest rate that was to be tried
	NothingHolds   Verdict = "nothing holds"   // even the lowest rate
	GeneratorBound Verdict = "generator bound" // the generator, not the server, is the limit above Holds
	Unsettled      Verdict = "unsettled"       // there were too many runs, or the search was ended
)

const (
	// fewest is how many requests the lowest rate that is tried has in a run.
	minRequests = 10
	// closedPart is how long the closed loop runs, as a share of a step.
	closedLoopShare = 0.5
	// warmupPart is how long the warm-up is unless the plan says, likewise.
	warmupShare = 0.2
	// boundPrecision is like Precision, where the generator is the limit, which matters less.
	boundPrecision = 0.25
	// maxConfirmations bounds what a search may ask for.
	maxConfirmations = 100
)

func (s Search) withDefaults() Search {
	s.Step = cmp.Or(s.Step, DefaultStep)
	s.Precision = cmp.Or(s.Precision, DefaultPrecision)
	s.Confirmations = cmp.Or(s.Confirmations, DefaultConfirmations)
	s.Runs = cmp.Or(s.Runs, DefaultRuns)
	if s.Run == nil {
		s.Run = Run
	}
	return s
}

func (s *Search) check(p *Plan) error {
	switch {
	case p.Pace.open():
		return badPlan("a search sets the rate itself: the plan has one")
	case !(s.From >= 0) || !(s.To >= 0) || s.To > 0 && s.From > s.To || max(s.From, s.To) > maxRate:
		return badPlan("a search from %v to %v requests a second: want a lower and a higher number up to %d", s.From, s.To, maxRate)
	case s.Step < 0:
		return badPlan("the steps of a search take %v: want a time", s.Step)
	case !(s.Precision > 0 && s.Precision < 1):
		return badPlan("a search to a precision of %v: want a share above 0 and below 1", s.Precision)
	case s.Confirmations < 1 || s.Confirmations > maxConfirmations:
		return badPlan("%d runs to confirm a rate: want 1 to %d", s.Confirmations, maxConfirmations)
	case s.Runs < 1:
		return badPlan("a search of %d runs: want a number from 1", s.Runs)
	}
	return nil
}

// Find searches with runs of the plan. The plan's Duration and Requests are not used, and its
// Pace may say only whether requests come at random, and from which seed. When ctx ends early, or
// a run fails, what was tried until then is returned with the error. The errors are those of Run.
func (s Search) Find(ctx context.Context, p Plan) (*SearchResult, error) {
	s = s.withDefaults()
	if err := s.check(&p); err != nil {
		return nil, err
	}
	p.Warmup = cmp.Or(p.Warmup, time.Duration(warmupShare*float64(s.Step)))
	p.Requests = 0
	h := &searchState{Search: s, plan: p, found: &SearchResult{URL: p.URL, Goal: s.Goal, Verdict: Unsettled}}
	err := h.search(ctx)
	h.found.Fails = h.high
	return h.found, err
}
