package trial

import (
	"cmp"
	"context"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/internal/lab/sample"
)

// countMeasure limits the time in which the kernel counts. Counts per request hardly differ from
// second to second.
const countMeasure = 500 * time.Millisecond

// Attribute carries out a trial of a contender in which the kernel counts, for a block.
func (b *Bench) Attribute(ctx context.Context, block int, c sample.Condition, m Member) (sample.Record, error) {
	k := Block{Number: block, Condition: c, Measure: min(b.Measure, countMeasure)}
	return b.alone(ctx, k, m, new(sample.Attribution))
}

// callsByRole returns the system calls between two moments, by role and name. It includes those of
// processes that lived at only one of them.
func callsByRole(before, after map[string][]proc.Usage, was, is proc.CallCounts) map[string]map[string]uint64 {
	names := proc.CallNames()
	calls := make(map[string]map[string]uint64)
	for _, role := range append(sample.Roles(), sample.RoleGenerator) {
		both := slices.Concat(pids(before, role), pids(after, role))
		slices.Sort(both)
		for _, pid := range slices.Compact(both) {
			for number, n := range is[pid] {
				if n -= was[pid][number]; n == 0 {
					continue
				}
				if calls[role] == nil {
					calls[role] = make(map[string]uint64)
				}
				calls[role][cmp.Or(names[number], "call "+strconv.Itoa(number))] += n
			}
		}
	}
	return calls
}

func pids(usages map[string][]proc.Usage, role string) (all []int) {
	if role == sample.RoleGenerator {
		return []int{os.Getpid()}
	}
	for _, u := range usages[role] {
		all = append(all, u.PID)
	}
	return all
}
