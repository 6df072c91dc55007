package trial

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/profile"
	"github.com/tarehq/tare/internal/lab/profile/perf"
	"github.com/tarehq/tare/load"
)

// profileMeasure is how long stacks are sampled. It yields some 3000 samples of a CPU: a function
// with a tenth of the time is known to a twentieth of that.
const profileMeasure = 3 * time.Second

// profileTrials is the number of short trials that the sampling takes at most.
const profileTrials = 5

// Profile carries out a trial in which the stacks of the contender's processes are sampled. A
// failure of the contender is in the profile. The error is ctx's, or a failure of the bench, such
// as a missing privilege.
func (b *Bench) Profile(ctx context.Context, c *contender.Contender, slot Slot) (p profile.Profile, err error) {
	p = profile.Profile{
		Contender: slot.Contender, Title: c.Title, Condition: slot.Condition.Text(), Period: perf.Period,
	}
	running, err := b.Stage.Start(ctx, c, b.Setting(slot.Condition), b.Ready(c))
	if ctx.Err() != nil {
		return p, ctx.Err()
	}
	if err != nil {
		p.Failure = err.Error()
		return p, nil
	}
	err = b.sampleStacks(ctx, running, slot, &p)
	if stopErr := running.Stop(); err == nil && stopErr != nil {
		err = fmt.Errorf("%s: stop: %w", c.Name, stopErr)
	}
	return p, err
}

// sampleStacks loads a running contender and fills in the profile.
func (b *Bench) sampleStacks(ctx context.Context, running *contender.Running, slot Slot, p *profile.Profile) error {
	restore, generator, err := b.moveAside(slot.Condition)
	if err != nil {
		return err
	}
	defer restore()
	cpus, _ := Layout(b.CPUs, slot.Cores)
	if generator == nil {
		cpus = b.CPUs
	}
	plan := b.plan(running.Place(), slot.Condition, generator)
	plan.Duration = min(profileMeasure, profileTrials*b.Measure)
	var sampler *perf.Sampler
	var startErr, endErr error
	roles := make(map[int]string)
	plan.Trace = &load.Trace{
		Progress: b.Progress,
		Started: func() {
			if roles, startErr = processRoles(running); startErr == nil {
				sampler, startErr = perf.Start(cpus)
			}
		},
		Ended: func() {
			if sampler == nil {
				return
			}
			later, err := processRoles(running)
			maps.Copy(roles, later)
			p.Stacks, p.Lost, endErr = sampler.End(roles)
			endErr = errors.Join(err, endErr)
		},
	}
	source, _ := b.generator(false)
	result, err := source.Run(ctx, plan)
	if err := errors.Join(err, startErr, endErr); err != nil {
		return err
	}
	p.Requests = result.Requests
	p.Failure = fault(result, fmt.Sprintf("nothing was received in %v", plan.Duration))
	return nil
}

// processRoles returns the roles of the contender's processes by PID.
func processRoles(running *contender.Running) (map[int]string, error) {
	usages, err := running.Usages()
	roles := make(map[int]string)
	for role, of := range usages {
		for _, u := range of {
			roles[u.PID] = role
		}
	}
	return roles, err
}
