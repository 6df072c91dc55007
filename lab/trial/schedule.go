package trial

import (
	"math/rand/v2"
	"slices"
)

// Slot is one trial to come.
type Slot struct {
	Block int // from 1
	Condition
	Contender string
}

// Schedule returns all trials in the order in which to run them: block after block,
// in each the conditions in random order, and under each condition the contenders
// in random order, so that those compared with each other are close in time. The
// same seed gives the same order.
func Schedule(blocks int, conditions []Condition, contenders []string, seed uint64) []Slot {
	rnd := rand.New(rand.NewPCG(seed, seed))
	slots := make([]Slot, 0, blocks*len(conditions)*len(contenders))
	for block := range blocks {
		for _, c := range rnd.Perm(len(conditions)) {
			for _, who := range rnd.Perm(len(contenders)) {
				slots = append(slots, Slot{block + 1, conditions[c], contenders[who]})
			}
		}
	}
	return slots
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
