package trial

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/internal/lab/sample"
)

// countMeasure limits the time in which the kernel counts. Counts per request hardly differ from
// second to second.
const countMeasure = 500 * time.Millisecond

// Attribute carries out a trial in which the kernel counts. Records and errors are as in Run.
func (b *Bench) Attribute(ctx context.Context, c *contender.Contender, slot Slot) (sample.Record, error) {
	short := *b
	short.Measure = min(b.Measure, countMeasure)
	return short.run(ctx, c, slot, new(sample.Attribution))
}

// count starts to count system calls. It returns nil if the trial counts nothing, or if the kernel
// rejects that; then the reason is in the attribution.
func count(to *sample.Attribution) *proc.Calls {
	if to == nil {
		return nil
	}
	to.Missing = nil // an earlier measurement of the same trial may have set it
	calls, err := proc.CountCalls()
	if err != nil {
		to.Missing = []string{fmt.Sprintf("system calls were not counted: %v", err)}
		return nil
	}
	return calls
}

func callsByRole(before, after *look) map[string]map[string]uint64 {
	names := proc.CallNames()
	calls := make(map[string]map[string]uint64)
	for _, role := range append(sample.Roles(), sample.RoleGenerator) {
		both := slices.Concat(pids(before.usages, role), pids(after.usages, role))
		slices.Sort(both)
		for _, pid := range slices.Compact(both) {
			for number, n := range after.counted[pid] {
				if n -= before.counted[pid][number]; n == 0 {
					continue
				}
				if calls[role] == nil {
					calls[role] = make(map[string]uint64)
				}
				calls[role][callName(names, number)] += n
			}
		}
	}
	return calls
}

// pids returns the processes of a role.
func pids(usages map[string][]proc.Usage, role string) (all []int) {
	if role == sample.RoleGenerator {
		return []int{os.Getpid()}
	}
	for _, u := range usages[role] {
		all = append(all, u.PID)
	}
	return all
}

func callName(names map[int]string, number int) string {
	if name := names[number]; name != "" {
		return name
	}
	return "call " + strconv.Itoa(number)
}

// generatorCost returns the cost of this process between two looks.
func generatorCost(before, after []proc.Usage) *proc.Cost {
	costs := proc.Costs(before, after)
	if len(costs) == 0 {
		return nil
	}
	return &costs[0]
}
