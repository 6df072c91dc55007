package trial

import (
	"slices"
)

// Slot is one trial to come.
type Slot struct {
	Block int // from 1
	Condition
	Contender string
}

// Layout divides processors between the servers and the generator. With cores = 0,
// or too few processors for both, they share all, and both results are nil.
func Layout(cpus []int, cores int) (servers, generator []int) {
	if cores == 0 || len(cpus) <= cores {
		return nil, nil
	}
	// Neighbours may share a core's insides: the generator takes from the far end.
	rest := slices.Clone(cpus[cores:])
	slices.Reverse(rest)
	return cpus[:cores], rest[:min(len(rest), 2*cores)]
}
