package fleet

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/agent"
)

// Session is a load.Session of an agent. Like the methods of a Fleet, only one goroutine may call
// its methods at a time, and none while the fleet runs a plan.
type Session struct {
	fleet    *Fleet
	link     *link
	id       int
	plan     load.Plan
	isBroken bool         // the agent executes no further command
	result   *load.Result // set by Close
}

// OpenSession opens a Session of the fleet's agent, which must be its only one. t describes the TLS
// of the plan; nil is without options. The errors are those of load.Open, and an *Error if the
// agent was lost.
func (f *Fleet) OpenSession(ctx context.Context, p load.Plan, t *agent.TLS) (*Session, error) {
	if len(f.links) != 1 {
		return nil, fmt.Errorf("fleet: a session on %d agents: want one", len(f.links))
	}
	p.TLS = nil
	plan, err := agent.NewPlan(p, t)
	if err != nil {
		return nil, err
	}
	f.sessions++
	s := &Session{fleet: f, link: f.links[0], id: f.sessions, plan: p}
	r, err := s.exchange(ctx, agent.SessionCommand{Plan: plan}, 0)
	switch {
	case err != nil:
		return nil, err
	case r.Error == nil:
		return s, nil
	case r.Error.Kind == agent.BadPlan:
		return nil, &load.PlanError{Reason: strings.TrimPrefix(r.Error.Text, "load: ")}
	case r.Error.Kind == agent.NoConnection:
		return nil, &load.ConnectError{URL: p.URL, First: r.Error.Text}
	}
	return nil, fmt.Errorf("fleet: %s: %s", s.link.name, r.Error.Text)
}

// Slice is load.Session.Slice on the agent. Elapsed is measured there, so the round trip to the
// agent is no part of it.
func (s *Session) Slice(ctx context.Context, d time.Duration, counts bool) (load.Slice, error) {
	r, err := s.exchange(ctx, agent.SessionCommand{Slice: &agent.Slice{For: d, Counts: counts}}, d)
	switch {
	case err != nil:
		return load.Slice{}, err
	case r.Error != nil:
		s.isBroken = true
		return load.Slice{}, fmt.Errorf("fleet: %s: %s", s.link.name, r.Error.Text)
	case r.Session.Slice == nil:
		s.isBroken = true
		return load.Slice{}, fmt.Errorf("fleet: %s: no slice in its record", s.link.name)
	}
	return *r.Session.Slice, nil
}

// Close is load.Session.Close on the agent. If the agent was lost or interrupted, the Result has no
// requests, and its first error says so.
func (s *Session) Close() *load.Result {
	if s.result != nil {
		return s.result
	}
	s.result = &load.Result{URL: s.plan.URL, Connections: s.plan.Connections}
	s.result.Errors.First = "the agent was interrupted"
	if s.isBroken {
		_ = s.link.send(agent.Command{Session: &agent.SessionCommand{ID: s.id, Close: true}})
		return s.result
	}
	r, err := s.exchange(context.Background(), agent.SessionCommand{Close: true}, 0)
	switch {
	case err != nil:
		s.result.Errors.First = err.Error()
	case r.Error != nil:
		s.result.Errors.First = r.Error.Text
	case isComplete(r.Result):
		s.result = r.Result
	}
	return s.result
}

// exchange sends a command and returns the record about it. The command takes the time d besides
// that of requests. An error means that the agent executes no further command of the session.
func (s *Session) exchange(ctx context.Context, c agent.SessionCommand, d time.Duration) (*agent.Record, error) {
	if s.isBroken || s.link.isLost {
		return nil, &Error{Reasons: []string{s.link.name + ": the session has ended"}}
	}
	c.ID = s.id
	_ = s.link.send(agent.Command{Session: &c}) // the reader reports the end of a link
	r, err := s.await(ctx, d+cmp.Or(s.plan.Timeout, load.DefaultTimeout)+resultTimeout)
	s.isBroken = err != nil
	return r, err
}

// await returns the next record of the session. If none arrives within the limit, or nothing at all
// for Options.Silence, the agent is lost.
func (s *Session) await(ctx context.Context, limit time.Duration) (*agent.Record, error) {
	watch := time.NewTicker(watchEvery)
	defer watch.Stop()
	late := s.link.now() + limit
	for {
		select {
		case e := <-s.fleet.events:
			if e.err != nil {
				s.fleet.lose(s.link, e.err.Error())
				return nil, &Error{Reasons: []string{s.link.name + " was lost: " + e.err.Error()}}
			}
			if r := &e.record; r.Session != nil && r.Session.ID == s.id {
				return r, nil
			}
		case <-watch.C:
			s.link.watch(s.fleet.options.Silence)
			if s.link.now() > late {
				s.link.giveUp(fmt.Sprintf("it reported nothing of a session for %.0f s", limit.Seconds()))
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
