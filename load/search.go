package load

import (
	"cmp"
	"context"
	"time"
)

// Defaults for the zero fields of a Search.
const (
	DefaultStep          = 5 * time.Second
	DefaultPrecision     = 0.02
	DefaultConfirmations = 3
	DefaultRuns          = 50
)

// Search finds the highest rate at which a server meets a Goal. With the zero value, the server
// must only respond to the requests that are due.
//
// A server sustains a rate if a run at that rate meets the Goal and 99 % of the due requests have a
// response. The generator must not have been busy. A run that fails is repeated, and the second one
// counts, since other programs disturb a machine now and then. If the generator caused both
// failures, they reveal nothing about the server: the Search ends a little below that rate and
// reports so.
//
// The rate doubles until a run fails, or is divided by four until one succeeds. Bisection then
// narrows the gap. More runs confirm the rate found; if most of them fail, it is lowered.
type Search struct {
	Goal Goal
	// From is the first rate to try, in requests per second; 0 means half of what a short closed
	// loop reaches. To is the highest; 0 means no limit.
	From, To float64
	// Step is the measured time of each run; DefaultStep if 0. Before it comes the Plan's Warmup,
	// or a fifth of the step, in which the load of the last run dies down.
	Step time.Duration
	// Precision ends the Search when the lowest failed rate is at most this share above the highest
	// sustained one; DefaultPrecision if 0.
	Precision float64
	// Confirmations is the most runs that confirm the rate found. More than half must succeed.
	// DefaultConfirmations if 0.
	Confirmations int
	// Runs limits the number of all runs; DefaultRuns if 0.
	Runs int

	// Tried is called after each Try, by the goroutine that called Find. It may be nil.
	Tried func(Try)
	// Run runs a Plan; nil means the function Run. It allows running Plans elsewhere.
	Run func(context.Context, Plan) (*Result, error)
}

// Try is one run of a Search.
type Try struct {
	Rate      float64 `json:"ratePerSecond"` // scheduled requests per second; 0 in the closed loop
	Purpose   Purpose `json:"purpose"`
	Sustained bool    `json:"sustained"`
	// Why lists why the rate was not sustained. Generator reports whether the generator is the
	// cause.
	Why       []string `json:"why,omitempty"`
	Generator bool     `json:"generatorBound,omitempty"`

	Achieved float64       `json:"achievedPerSecond"` // responses per second
	P50      time.Duration `json:"p50Ns"`             // latency from when requests were due
	P99      time.Duration `json:"p99Ns"`
	// ErrorShare is the share of errors and missing responses among the due requests. Requests in
	// flight at the end count only if they are more, or have waited longer, than usual.
	ErrorShare float64 `json:"errorShare"`
	Result     *Result `json:"result"`
}

// Purpose is the search step that a Try belongs to.
type Purpose string

const (
	ToStart   Purpose = "start"   // finds the first rate
	ToBracket Purpose = "bracket" // finds a sustained rate and one that is not
	ToBisect  Purpose = "bisect"  // narrows the bracket
	ToConfirm Purpose = "confirm" // confirms the sustained rate
)

// SearchResult is the result of a Search.
type SearchResult struct {
	URL     string  `json:"url"`
	Goal    Goal    `json:"goal"`
	Verdict Verdict `json:"verdict"`
	// Sustained is the highest confirmed rate, in requests per second; 0 if there is none.
	Sustained float64 `json:"sustainedPerSecond"`
	// Failed is the lowest rate that was not sustained, whatever the cause; 0 if there is none.
	Failed float64 `json:"failedPerSecond"`
	Tries  []Try   `json:"tries"` // in the order of the runs
}

// Verdict is how a Search ended.
type Verdict string

const (
	Settled        Verdict = "settled"         // the rate Sustained was sustained, the rate Failed was not
	AllSustained   Verdict = "all sustained"   // even the highest allowed rate was sustained
	NoneSustained  Verdict = "none sustained"  // even the lowest rate was not sustained
	GeneratorBound Verdict = "generator bound" // above Sustained the generator is the limit, not the server
	Unsettled      Verdict = "unsettled"       // the runs were used up, or the Search ended early
)

const (
	minRequests      = 10   // number of requests in a run at the lowest rate
	closedLoopShare  = 0.5  // length of the closed loop, as a share of a step
	warmupShare      = 0.2  // length of the default warm-up, as a share of a step
	boundPrecision   = 0.25 // precision if the generator is the limit, where it matters less
	maxConfirmations = 100  // limits Search.Confirmations
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
		return badPlan("the plan of a search must not set a rate: the search does")
	case !(s.From >= 0) || !(s.To >= 0) || s.To > 0 && s.From > s.To || max(s.From, s.To) > maxRate:
		return badPlan("search from %v to %v requests/s: want 0 <= from <= to <= %d", s.From, s.To, maxRate)
	case s.Step < 0:
		return badPlan("search steps of %v: want a duration above 0", s.Step)
	case !(s.Precision > 0 && s.Precision < 1):
		return badPlan("search precision %v: want a share above 0 and below 1", s.Precision)
	case s.Confirmations < 1 || s.Confirmations > maxConfirmations:
		return badPlan("%d confirming runs: want 1 to %d", s.Confirmations, maxConfirmations)
	case s.Runs < 1:
		return badPlan("search of %d runs: want 1 or more", s.Runs)
	}
	return nil
}

// Find searches with runs of the Plan. It ignores the Plan's Duration and Requests; the Plan's Pace
// may set only Poisson and Seed. If ctx ends early or a run fails, Find returns the error with the
// result so far. The errors are those of Run.
func (s Search) Find(ctx context.Context, p Plan) (*SearchResult, error) {
	s = s.withDefaults()
	if err := s.check(&p); err != nil {
		return nil, err
	}
	p.Warmup = cmp.Or(p.Warmup, time.Duration(warmupShare*float64(s.Step)))
	p.Requests = 0
	h := &searchState{settings: s, plan: p, found: &SearchResult{URL: p.URL, Goal: s.Goal, Verdict: Unsettled}}
	err := h.search(ctx)
	h.found.Failed = h.high
	return h.found, err
}
