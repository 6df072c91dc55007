package trial

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/load"
)

// round gives each member a slice, in random order. The CPU time of other programs is measured over
// the whole round, because the kernel counts idle time in clock ticks.
func (s *blockState) round(ctx context.Context, round int) error {
	before, err := s.machineUse()
	if err != nil {
		return err
	}
	members := slices.Clone(s.up)
	for _, i := range s.random.Perm(len(members)) {
		if err := s.visit(ctx, members[i], round); err != nil {
			return err
		}
	}
	after, err := s.machineUse()
	if err != nil {
		return err
	}
	if before.busy == 0 {
		return nil
	}
	others := (after.busy - before.busy) - (after.own - before.own)
	share := others.Seconds() / after.at.Sub(before.at).Seconds()
	for _, m := range s.up {
		if n := len(m.rec.Slices); n > 0 && m.rec.Slices[n-1].Round == round {
			slice := &m.rec.Slices[n-1]
			slice.Others = time.Duration(share * float64(slice.Elapsed))
			m.rec.Others += slice.Others
		}
	}
	return nil
}

// machineUse is the CPU time that the block's CPUs have spent at a moment.
type machineUse struct {
	at   time.Time
	busy time.Duration // on anything; 0 if unknown
	own  time.Duration // on members in their slices, and on this process
}

func (s *blockState) machineUse() (machineUse, error) {
	busy, _, err := s.cpus.Use()
	if err != nil {
		return machineUse{}, err
	}
	user, sys := proc.Self()
	return machineUse{at: time.Now(), busy: busy, own: s.ownCPU + user + sys}, nil
}

func (s *blockState) visit(ctx context.Context, m *member, round int) error {
	s.announce(m)
	if err := s.lookAsleep(m); err != nil {
		return err
	}
	usages := m.usages
	counts, err := s.calls.Counts()
	if err != nil {
		return err
	}
	s.probe.begin()
	got, err := m.session.Slice(ctx, s.length, true)
	probed := s.probe.end()
	if err != nil {
		return err
	}
	later, err := s.calls.Counts()
	if err != nil {
		return err
	}
	spent, err := m.lookAndSum()
	if err != nil {
		return err
	}
	if s.calls != nil {
		s.counted = callsByRole(usages, m.usages, counts, later)
	}
	if why := m.died(); why != "" {
		return s.fail(m, why)
	}
	if got.Requests == 0 && got.Errors > 0 { // its next slices would take as long as their timeouts
		first := m.session.Close().Errors.First
		return s.fail(m, cmp.Or(m.diesSoon(), "no response in a slice: "+first+m.running.Printed()))
	}
	for role, d := range spent {
		m.cpu[role] += d
		s.ownCPU += d
	}
	m.rate = float64(got.Requests) / got.Elapsed.Seconds()
	if got.Requests > 0 {
		m.rec.Slices = append(m.rec.Slices, sample.Slice{
			Round: round, Elapsed: got.Elapsed, Requests: got.Requests, CPU: spent, Probe: probed,
		})
	}
	return nil
}

// lookAsleep looks at a member before its slice and adds what it used since its last one.
func (s *blockState) lookAsleep(m *member) error {
	last := m.lookedAt
	spent, err := m.lookAndSum()
	m.rec.Asleep.For += m.lookedAt.Sub(last)
	for _, d := range spent {
		m.rec.Asleep.CPU += d
	}
	return err
}

// lookAndSum returns the CPU time that a member used since the last look, by role.
func (m *member) lookAndSum() (spent map[string]time.Duration, err error) {
	before := m.usages
	if len(before) == 0 {
		panic("trial: BUG: no look at the member before")
	}
	if err := m.look(); err != nil {
		return nil, err
	}
	spent = make(map[string]time.Duration, len(m.usages))
	for role, usages := range m.usages {
		spent[role] = proc.Spent(before[role], usages)
	}
	return spent, nil
}

// look reads the CPU time of a member's processes. It lists processes only if one has started on
// the machine, or one of the member's has ended: that takes a tenth of a slice. Otherwise it only
// reads the clocks of the known ones.
func (m *member) look() error {
	last, err := proc.LastPID()
	m.lookedAt = time.Now()
	if err == nil && last == m.lastPID && m.readClocks() {
		return nil
	}
	m.lastPID = last
	m.usages, err = m.running.Usages()
	m.lookedAt = time.Now()
	return err
}

func (m *member) readClocks() bool {
	if len(m.usages) == 0 {
		return false
	}
	now := make(map[string][]proc.Usage, len(m.usages))
	for role, usages := range m.usages {
		again, ok := proc.Again(usages)
		if !ok {
			return false
		}
		now[role] = again
	}
	m.usages = now
	return true
}

// finish completes a member's record after its last slice and stops it. The record's CPU time is
// that of the slices; context switches and the shares of user and system time are those of the whole
// block.
func (s *blockState) finish(m *member) error {
	usages, err := m.running.Usages()
	if err != nil {
		return err
	}
	result := m.session.Close()
	if why := m.died(); why != "" {
		return s.fail(m, why)
	}
	if why := cmp.Or(fault(result, "nothing was received in slices of "+s.length.String()),
		handshakeFault(&s.Scenario, result)); why != "" {
		return s.fail(m, why+m.running.Printed())
	}
	m.rec.Load = result
	for role, now := range usages {
		costs := proc.Costs(m.start[role], now)
		proc.Scale(costs, m.cpu[role])
		m.rec.Costs[role] = costs
	}
	m.rec.Others = max(0, m.rec.Others)
	s.records = append(s.records, m.rec)
	return s.remove(m)
}

// fault returns why a result cannot be compared, or "". Without responses and errors it is
// otherwise.
func fault(result *load.Result, otherwise string) string {
	switch {
	case result.Requests == 0:
		return "no response under load: " + cmp.Or(result.Errors.First, otherwise)
	case float64(wrong(result)) >= wrongBound*float64(result.Requests):
		return fmt.Sprintf("it responds differently under load: %d of %d responses were not the expected one; the first error: %s",
			wrong(result), result.Requests, result.Errors.First)
	}
	return ""
}

// wrongBound is the share of wrong responses from which on a contender cannot be compared. Fewer
// are reported as errors.
const wrongBound = 0.001

// wrong returns how many responses differed from the expected one. The statuses of an overloaded
// server, or of a front that cannot reach its upstream, are errors of another kind.
func wrong(r *load.Result) uint64 {
	status := r.Errors.Status
	for _, code := range []int{http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout} {
		status -= min(status, r.Statuses[code])
	}
	return status + r.Errors.Body + r.Errors.Header
}

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
	for _, role := range sample.Roles() {
		pids := make(map[int]bool)
		for _, u := range slices.Concat(before[role], after[role]) {
			pids[u.PID] = true
		}
		for pid := range pids {
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
