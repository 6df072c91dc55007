package stat

// Outcome is what an interval shows about a limit.
type Outcome uint8

const (
	Undecided Outcome = iota // the interval reaches over the limit, or has no bounds
	Holds                    // the whole interval is within the limit
	Violated                 // the whole interval is beyond the limit
)

func (o Outcome) String() string { return [...]string{"undecided", "holds", "FAILED"}[o] }

// Against compares the interval with a limit from above, or with a floor, which is one from below.
func (i Interval) Against(limit float64, isFloor bool) Outcome {
	lo, hi := i.Lo, i.Hi
	if isFloor {
		limit, lo, hi = -limit, -hi, -lo
	}
	switch {
	case !i.Known():
		return Undecided
	case lo > limit:
		return Violated
	case hi <= limit:
		return Holds
	}
	return Undecided
}

// OutcomeOf returns Holds or Violated.
func OutcomeOf(holds bool) Outcome {
	if holds {
		return Holds
	}
	return Violated
}
