package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/tarehq/tare/load"
)

// session is a load.Session of the agent. Its goroutine passes through these states:
//
//	opening ──▶ open ──slice──▶ open ──close, error or end of the agent──▶ done
type session struct {
	server *server
	id     int
	orders chan SessionCommand // with room for one; the goroutine receives them
	done   chan struct{}       // closed when the session's last record was queued
}

// direct carries out a command about a session. An error ends the agent.
func (s *server) direct(ctx context.Context, c *SessionCommand) error {
	known := s.sessions[c.ID]
	if known != nil && known.isDone() {
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

// endSessions waits for all sessions, whose context has ended.
func (s *server) endSessions() {
	for _, one := range s.sessions {
		<-one.done
	}
}

func (o *session) isDone() bool {
	select {
	case <-o.done:
		return true
	default:
		return false
	}
}

// serve opens the session and carries out orders until its end.
func (o *session) serve(ctx context.Context, p *Plan) {
	defer close(o.done)
	plan, err := p.Load()
	var opened *load.Session
	if err == nil {
		opened, err = load.Open(ctx, plan)
	}
	if err != nil {
		o.report(Record{Error: describe(err)})
		return
	}
	defer opened.Close()
	o.report(Record{Session: &SessionRecord{IsOpen: true}})
	for {
		select {
		case order := <-o.orders:
			if err := o.execute(ctx, opened, order); err != nil {
				o.report(Record{Error: describe(err)})
				return
			}
			if order.Close {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// execute carries out one order.
func (o *session) execute(ctx context.Context, opened *load.Session, order SessionCommand) error {
	switch {
	case order.Close:
		o.report(Record{Result: opened.Close()})
	case order.Slice == nil:
		return errors.New("agent: a command for a session has neither a plan, a slice nor a close")
	default:
		before := processTime()
		slice, err := opened.Slice(ctx, order.Slice.For, order.Slice.Counts)
		if err != nil {
			return err
		}
		o.report(Record{Session: &SessionRecord{Slice: &slice}, CPU: (processTime() - before).Seconds()})
	}
	return nil
}

// report queues a record of the session.
func (o *session) report(r Record) {
	if r.Session == nil {
		r.Session = new(SessionRecord)
	}
	r.Session.ID = o.id
	o.server.out.wait(r)
}
