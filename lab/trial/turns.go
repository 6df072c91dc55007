package trial

import (
	"context"
	"time"

	"github.com/tarehq/tare/lab/proc"
)

// round gives each member a slice, in heats that each hold one of the control, too. It reports
// whether anybody took part.
func (s *side) round(ctx context.Context, n int) (more bool, err error) {
	var control *member
	var others []*member
	for _, i := range s.random.Perm(len(s.up)) {
		switch m := s.up[i]; {
		case m.rec.Failure != "":
		case m.Name == s.Control:
			control = m
		case m.rounds >= n:
			others = append(others, m)
		}
	}
	if len(others) == 0 && (control == nil || control.rounds < n || len(s.up) > 1) {
		return false, nil
	}
	for heat := 1; heat == 1 || len(others) > 0; heat++ {
		size := min(heatSize, len(others))
		now := append([]*member(nil), others[:size]...)
		others = others[size:]
		if control != nil {
			now = append(now, control)
		}
		if err := s.heat(ctx, now, n, heat); err != nil {
			return false, err
		}
	}
	return true, nil
}

// heat gives each of some members a slice. What other programs use meanwhile is measured over all of them:
// the kernel tells it in clock ticks.
func (s *side) heat(ctx context.Context, members []*member, round, heat int) error {
	before, err := s.busyness()
	if err != nil {
		return err
	}
	for _, i := range s.random.Perm(len(members)) {
		if err := s.visit(ctx, members[i], round, heat); err != nil {
			return err
		}
	}
	after, err := s.busyness()
	if err != nil {
		return err
	}
	others := (after.busy - before.busy) - (after.known - before.known)
	share := others.Seconds() / after.at.Sub(before.at).Seconds()
	for _, m := range members {
		if n := len(m.rec.Slices); n > 0 && m.rec.Slices[n-1].Round == round && m.rec.Slices[n-1].Heat == heat {
			slice := &m.rec.Slices[n-1]
			slice.Others = time.Duration(share * float64(slice.Took))
			m.rec.Others += slice.Others
		}
	}
	return nil
}

// busyness is how much processor time has been used at a moment.
type busyness struct {
	at    time.Time
	busy  time.Duration // by all programs
	known time.Duration // by members and this process
}

func (s *side) busyness() (busyness, error) {
	machine, err := proc.Now()
	if err != nil {
		return busyness{}, err
	}
	self, err := proc.Self(RoleGenerator)
	return busyness{at: time.Now(), busy: machine.Busy, known: s.known + self.Ran}, err
}

// visit gives a member one slice.
func (s *side) visit(ctx context.Context, m *member, round, heat int) error {
	if m.rec.Failure != "" {
		return nil
	}
	s.tell(m)
	if err := s.seeAsleep(m); err != nil {
		return err
	}
	before, err := proc.Self(RoleGenerator)
	if err != nil {
		return err
	}
	opened, at := proc.PassiveOpens(), m.at
	s.probe.begin()
	got, err := m.session.Slice(ctx, m.length, true)
	probed, probing := s.probe.end()
	if err != nil {
		return err
	}
	spent, err := s.see(m)
	if err != nil {
		return err
	}
	if m.rec.Failure = m.died(""); m.rec.Failure != "" {
		return nil
	}
	if got.Requests == 0 && got.Errors > 0 { // its next slices would take as long as their timeouts
		m.rec.Failure = "no response in a slice: " + m.session.Close().Errors.First
		return nil
	}
	after, err := proc.Self(RoleGenerator)
	if err != nil {
		return err
	}
	after.User -= min(probing, after.User-before.User) // it is no part of the load
	after.Ran -= min(probing, after.Ran-before.Ran)
	m.own.Add([]proc.Usage{before}, []proc.Usage{after})
	for role, d := range spent {
		m.spent[role] += d
	}
	m.rec.MachineAccepted += proc.PassiveOpens() - opened
	m.rate = float64(got.Requests) / got.Took.Seconds()
	if got.Requests > 0 {
		m.rec.Slices = append(m.rec.Slices, Slice{Round: round, Heat: heat, Offset: at.Sub(m.rec.Start), Took: got.Took, Requests: got.Requests, CPU: spent, Probe: probed})
	}
	return nil
}

// seeAsleep looks at a member, and adds what it cost while it slept.
func (s *side) seeAsleep(m *member) error {
	was := m.at
	spent, err := s.see(m)
	m.rec.Asleep.For += m.at.Sub(was)
	for _, d := range spent {
		m.rec.Asleep.CPU += d
	}
	return err
}

// see returns what a member has cost since it was seen last, by role.
func (s *side) see(m *member) (spent map[string]time.Duration, err error) {
	before := m.usages
	if len(before) == 0 {
		panic("trial: BUG: a member was not looked at before")
	}
	if err := m.lookAgain(); err != nil {
		return nil, err
	}
	spent = make(map[string]time.Duration, len(m.usages))
	for role, usages := range m.usages {
		var sum proc.Sum
		sum.Add(before[role], usages)
		spent[role] = sum.CPU()
		s.known += spent[role]
	}
	return spent, nil
}

// lookAgain looks at a member's processes. Unless one has begun on the machine, or one of them has ended,
// they are those that were there before, and their clocks tell all that matters now: to look for all
// processes takes a tenth of a slice.
func (m *member) lookAgain() error {
	last, err := proc.LastPID()
	if err != nil {
		return err
	}
	m.at = time.Now()
	if last == m.lastPID && m.readClocks() {
		return nil
	}
	m.lastPID = last
	m.usages, err = m.running.Usages()
	m.at = time.Now()
	return err
}

// readClocks reports whether each of the processes has a clock.
func (m *member) readClocks() bool {
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

// finish fills in a member's record when all slices are over.
func (m *member) finish() error {
	if m.rec.Failure != "" {
		return nil
	}
	usages, err := m.running.Usages()
	if err != nil {
		return err
	}
	result := m.session.Close()
	if m.rec.Failure = fault(result, "nothing came in "+m.length.String()); m.rec.Failure != "" {
		return nil
	}
	m.rec.Load = result
	for role, now := range usages {
		costs := proc.Costs(m.began[role], now)
		proc.Scale(costs, m.spent[role]) // what it cost asleep is not the requests'
		m.rec.Costs[role] = costs
	}
	if own := m.own.Costs(); len(own) > 0 {
		m.rec.Generator = &own[0]
	}
	m.rec.Others = max(0, m.rec.Others)
	return nil
}
