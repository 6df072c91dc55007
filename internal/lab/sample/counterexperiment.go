package sample

// CounterExperiment is one that was carried out: the contender, the contender with one setting
// changed, and the control, side by side.
type CounterExperiment struct {
	Contender      string    `json:"contender"`
	Condition      Condition `json:"condition"`
	Cause          string    `json:"cause"`
	Setting        string    `json:"setting"`
	To             string    `json:"to"` // new value of the setting
	Explains       string    `json:"explains"`
	ChangesControl bool      `json:"ofControl,omitempty"` // Toggled is of the control

	// Of, Toggled and Control hold the explained quantity by block: microseconds of CPU time or
	// of mean latency, or requests per second. Blocks with a failed trial are left out.
	Of      []float64 `json:"of"`
	Toggled []float64 `json:"toggled"`
	Control []float64 `json:"control"`

	// Failure is the reason why there are no values.
	Failure string `json:"failure,omitempty"`
}
