//go:build linux

package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tarehq/tare/internal/lab"
	"github.com/tarehq/tare/internal/lab/events"
	"github.com/tarehq/tare/internal/lab/timeline"
)

// checkForEvents rejects flags that do not apply to experiments of events.
func (f *weighFlags) checkForEvents(name string) error {
	if err := f.reject(name+", which counts events", "blocks", "warmup", "measure", "cores", "scenarios", "rate",
		"sweep", "tune", "why", "profile", "until", "within", "seed", "full", "on", "address",
		"agent-program", "fail-if"); err != nil {
		return err
	}
	if len(f.connections) > 1 {
		return errors.New("--connections: want one number of slow clients")
	}
	return f.own.rejectFor(fmt.Sprintf("%q", name))
}

// weighEvents runs or prepares an experiment of events and shows the outcome.
func weighEvents(ctx context.Context, env Env, name string, flags *weighFlags) error {
	crowd := 0
	if len(flags.connections) > 0 {
		crowd = flags.connections[0]
	}
	o, err := flags.options(env, name, nil, nil)
	if err != nil {
		return usageError(err)
	}
	p := newProgress(env.Stderr, 0)
	o.Logf, o.Reports = p.print, timeline.FileNames()
	o.Progress = func(g lab.Progress) {
		p.total(g.Total)
		p.set(g.Done, "%s  %s left", g.Contender, (g.Total - g.Done).Round(time.Second))
	}
	if flags.prepare {
		err := prepared(events.Prepare(ctx, o, crowd))
		p.end()
		return err
	}
	r, dir, err := events.Weigh(ctx, o, crowd)
	p.end()
	if r == nil {
		return weighError(err)
	}
	return showResults(env, r, &r.Warnings, dir, flags.details, err)
}
