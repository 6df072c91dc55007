package trial

import (
	"slices"

	"github.com/tarehq/tare/internal/lab/sample"
)

// Slot identifies one trial.
type Slot struct {
	Block int // from 1
	sample.Condition
	Contender string
}

// Layout divides processors between the servers and the generator. If cores is 0, or there are too
// few processors for both, they share all and both results are nil.
func Layout(cpus []int, cores int) (servers, generator []int) {
	if cores == 0 || len(cpus) <= cores {
		return nil, nil
	}
	// Neighboring processors may share a core: the generator takes those at the other end.
	rest := slices.Clone(cpus[cores:])
	slices.Reverse(rest)
	return cpus[:cores], rest[:min(len(rest), 2*cores)]
}
