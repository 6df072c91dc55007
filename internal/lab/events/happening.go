package events

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/internal/lab/sample"
)

const (
	tick        = 5 * time.Millisecond   // precision of the times at which steps happen
	sampleEvery = 500 * time.Millisecond // time between two samples of the memory
	// endWithin is how long a process that is restarted may take to end. Then it is killed.
	endWithin = 15 * time.Second
)

// happening is one case while it runs. One goroutine carries out the plan and takes the samples.
type happening struct {
	plan    *Plan
	of      *Case
	running []*contender.Running // the steps happen to the first one
	cpus    []int                // of the machine
	result  *sample.Case

	started    time.Time
	processors proc.CPUs
	crowd      *crowd
	streams    *streams             // nil without
	restarting map[string]time.Time // roles whose process is ending, with the time at which it is killed
}

func (h *happening) run(ctx context.Context) error {
	if err := h.checkRoles(); err != nil {
		return err
	}
	h.processors = proc.NewCPUs(h.cpus)
	before, err := lookAt(h.running, &h.processors)
	if err != nil {
		return err
	}
	h.restarting = make(map[string]time.Time)
	h.crowd = &crowd{Crowd: h.plan.Crowd, address: h.running[0].Address}
	if h.of.kind != nil {
		return h.stream(ctx)
	}
	h.started = time.Now()
	length := time.Duration(h.plan.Length)
	var counting sync.Mutex
	count := func(r sample.Request) {
		counting.Lock()
		defer counting.Unlock()
		h.result.Traffic.Add(r)
	}
	var sending sync.WaitGroup
	for i := range h.plan.Groups {
		c := &clients{
			group: &h.plan.Groups[i], address: h.running[0].Address, started: h.started,
			timeout: time.Duration(h.plan.Timeout), count: count,
		}
		sending.Go(func() { c.run(ctx, length) })
	}
	err = h.follow(ctx, length)
	after, lookErr := lookAt(h.running, &h.processors)
	h.result.Work = before.until(&after, len(h.cpus))
	h.crowd.leave()
	sending.Wait()
	// A process that is stopped by SIGSTOP does not end.
	for _, role := range h.running[0].Roles() {
		_ = h.running[0].Signal(role, syscall.SIGCONT)
	}
	return errors.Join(err, lookErr)
}

// checkRoles returns an error for a step that happens to a process that the contender lacks.
func (h *happening) checkRoles() error {
	for i := range h.of.Plan {
		s, roles := &h.of.Plan[i], h.running[0].Roles()
		if s.Of != "" && !slices.Contains(roles, s.Of) {
			return fmt.Errorf("plan: %s: %s has no process %q; want one of: %s", s.text(), h.running[0].Name, s.Of,
				strings.Join(roles, ", "))
		}
	}
	return nil
}

// follow carries out the whole plan, however late, and takes samples until a time after the start.
func (h *happening) follow(ctx context.Context, length time.Duration) error {
	if err := h.sample(0); err != nil {
		return err
	}
	next, sampled := 0, time.Duration(0)
	for {
		now := time.Since(h.started)
		for next < len(h.of.Plan) && now >= time.Duration(h.of.Plan[next].At) {
			if err := h.step(ctx, &h.of.Plan[next]); err != nil {
				return fmt.Errorf("%s: %w", h.of.Plan[next].text(), err)
			}
			next++
		}
		if now >= length {
			return h.sample(now)
		}
		if err := h.startEnded(ctx); err != nil {
			return err
		}
		if now >= sampled+sampleEvery {
			sampled = now
			if err := h.sample(now); err != nil {
				return err
			}
		}
		if !pause(ctx, tick) {
			return ctx.Err()
		}
	}
}

func (h *happening) step(ctx context.Context, s *Step) error {
	role := cmp.Or(s.Of, contender.RoleApplication)
	h.mark(s.text())
	if h.streams != nil && slices.Contains(phaseSteps(), s.Do) {
		if err := h.beginPhase(s.Do); err != nil {
			return err
		}
	}
	switch s.Do {
	case Stall:
		h.streams.stall(ctx)
		return nil
	case Reload:
		return h.running[0].Reload(ctx)
	case Gather:
		h.crowd.gather(ctx)
		return nil
	case Leave:
		h.crowd.leave()
		return nil
	case Start:
		return h.running[0].StartAgain(ctx, role)
	case Restart:
		h.restarting[role] = time.Now().Add(endWithin)
		return h.running[0].Signal(role, syscall.SIGTERM)
	}
	return h.running[0].Signal(role, signals()[s.Do])
}

func (h *happening) startEnded(ctx context.Context) error {
	for role, deadline := range h.restarting {
		ended, err := h.running[0].Ended(role)
		if err != nil {
			return err
		}
		switch {
		case ended:
			delete(h.restarting, role)
			h.mark("the old process has ended")
			if err := h.running[0].StartAgain(ctx, role); err != nil {
				return err
			}
		case time.Now().After(deadline):
			if err := h.running[0].Signal(role, syscall.SIGKILL); err != nil {
				return err
			}
			h.restarting[role] = time.Now().Add(endWithin)
		}
	}
	return nil
}

func (h *happening) mark(text string) {
	h.result.Marks = append(h.result.Marks, sample.Mark{At: time.Since(h.started), Text: text})
}

// sample records the memory of all processes, and the crowd.
func (h *happening) sample(now time.Duration) error {
	all, err := processes(h.running)
	if err != nil {
		return err
	}
	s := sample.Moment{At: now, Crowd: int(h.crowd.open.Load()), Ended: int(h.crowd.ended.Load())}
	var filesErr error
	s.Memory = proc.Resident(all)
	s.Sockets, err = proc.SocketMemory()
	if now >= time.Duration(h.plan.Length) { // thousands of descriptors take longer than a tick
		s.Files, filesErr = proc.TemporaryFiles(all)
	}
	h.result.Samples = append(h.result.Samples, s)
	return errors.Join(err, filesErr)
}
