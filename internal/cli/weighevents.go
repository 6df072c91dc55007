//go:build linux

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/lab/events"
	"github.com/tarehq/tare/internal/lab/timeline"
)

// checkForEvents rejects flags that do not apply to experiments of events.
func (f *weighFlags) checkForEvents(name string) error {
	for _, flag := range []string{"blocks", "warmup", "measure", "cores", "scenarios", "rate", "sweep", "tune", "why",
		"profile", "until", "within", "seed", "full", "on", "address", "agent-program"} {
		if f.isSet(flag) {
			return fmt.Errorf("--%s does not apply to %s, which counts events", flag, name)
		}
	}
	if len(f.connections) > 1 {
		return errors.New("--connections: want one number of slow clients")
	}
	return f.own.rejectFor(fmt.Sprintf("%q", name))
}

// weighEvents runs or prepares an experiment of events and shows the outcome.
func weighEvents(ctx context.Context, env Env, name string, flags *weighFlags) error {
	w, err := findWorkspace(env, true)
	if err != nil {
		return err
	}
	o := events.Options{Root: w.root, Results: w.results, Tools: w.tools, Experiment: name, Only: flags.only}
	if len(o.Only) > 0 {
		o.Flags = append(o.Flags, "--only", strings.Join(o.Only, ","))
	}
	if len(flags.connections) > 0 {
		o.Crowd = flags.connections[0]
		o.Flags = append(o.Flags, "--connections", strconv.Itoa(o.Crowd))
	}
	if flags.out != "" {
		o.Out = env.path(flags.out)
	}
	if self, err := os.Executable(); err == nil {
		o.Guard = []string{self, "guard"}
	}
	p := newProgress(env.Stderr, 0)
	o.Logf = p.print
	o.Progress = func(g events.Progress) {
		p.total(g.Total)
		p.set(g.Done, "%s  %s left", g.Case, (g.Total - g.Done).Round(time.Second))
	}
	if flags.prepare {
		r, err := events.Prepare(ctx, o)
		p.end()
		if err == nil && !r.Complete() {
			return &exitError{exitFail, errors.New("the preparation is incomplete; see above")}
		}
		return weighError(err)
	}
	r, dir, err := events.Weigh(ctx, o)
	p.end()
	if r == nil {
		return weighError(err)
	}
	return showResults(env, timeline.New(r), &r.Warnings, dir, flags.details, err)
}
