package agent

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/tarehq/tare/load"
)

// session is a load.Session of the agent. Its goroutine passes through these states:
//
//	opening ──▶ open ──slice──▶ open ──close, error or end of the agent──▶ done
type session struct {
	server *server
	id     int
	orders chan SessionCommand // with room for one; the goroutine receives them
	ended  atomic.Bool         // set before the last record is queued: the controller may reuse the ID then
	done   chan struct{}       // closed when the last record was queued
}

// direct carries out a command about a session. An error ends the agent.
func (s *server) direct(ctx context.Context, c *SessionCommand) error {
	known := s.sessions[c.ID]
	if known != nil && known.ended.Load() {
		known = nil
	}
	switch {
	case c.Plan != nil && known != nil:
		return fmt.Errorf("agent: received a plan for session %d, which is open (close it first)", c.ID)
	case c.Plan != nil:
		known = &session{server: s, id: c.ID, orders: make(chan SessionCommand, 1), done: make(chan struct{})}
		s.sessions[c.ID] = known
		go known.serve(ctx, c.Plan)
		return nil
	case known == nil: // it may just have failed
		s.out.send(Record{Session: &SessionRecord{ID: c.ID}, Error: &Error{Failed, "agent: the session is not open"}})
		return nil
	}
	select {
	case known.orders <- *c:
		return nil
	default:
		return fmt.Errorf("agent: received two commands for session %d at once (wait for the record of the first)", c.ID)
	}
}

func (o *session) serve(ctx context.Context, p *Plan) {
	defer close(o.done)
	if last := o.run(ctx, p); last != nil {
		o.ended.Store(true)
		o.report(*last)
	}
}

// run opens the session, carries out orders and closes it. It returns the last record, or nil at the
// end of the agent.
func (o *session) run(ctx context.Context, p *Plan) (last *Record) {
	plan, err := p.Load()
	var opened *load.Session
	if err == nil {
		opened, err = load.Open(ctx, plan)
	}
	if err != nil {
		return &Record{Error: describe(err)}
	}
	defer opened.Close()
	o.report(Record{Session: &SessionRecord{IsOpen: true}})
	for {
		select {
		case order := <-o.orders:
			if order.Close {
				return &Record{Result: opened.Close()}
			}
			if err := o.slice(ctx, opened, order.Slice); err != nil {
				return &Record{Error: describe(err)}
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func (o *session) slice(ctx context.Context, opened *load.Session, s *Slice) error {
	if s == nil {
		return errors.New("agent: a command for a session has neither a plan, a slice nor a close")
	}
	before := processTime()
	slice, err := opened.Slice(ctx, s.For, s.Counts)
	if err == nil {
		o.report(Record{Session: &SessionRecord{Slice: &slice}, CPU: (processTime() - before).Seconds()})
	}
	return err
}

func (o *session) report(r Record) {
	if r.Session == nil {
		r.Session = new(SessionRecord)
	}
	r.Session.ID = o.id
	o.server.out.wait(&r)
}
