package sample

// CounterExperiment is one that was carried out: a contender, the same with a garbage collector that
// runs less often, and the control, side by side.
type CounterExperiment struct {
	Contender string    `json:"contender"`
	Condition Condition `json:"condition"`

	// Of, Toggled and Control hold the CPU time of a request by block, in microseconds. Blocks with a
	// failed trial are left out.
	Of      []float64 `json:"of"`
	Toggled []float64 `json:"toggled"`
	Control []float64 `json:"control"`

	// Failure is the reason why there are no values.
	Failure string `json:"failure,omitempty"`
}
