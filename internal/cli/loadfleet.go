//go:build linux

package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/fleet"
)

type fleetFlags struct {
	on            []string
	onLoss        fleet.OnLoss
	programs      []string // file names
	kubernetes    fleet.Kubernetes
	printManifest bool
}

func (f *fleetFlags) define(c *cobra.Command) {
	set := c.Flags()
	set.StringSliceVar(&f.on, "on", nil,
		"generate the load together on these `HOSTS`: destinations of ssh, local, or local:N for N processes here (default this process)")
	set.Var(parsed("policy", &f.onLoss, parseOnLoss), "on-loss",
		"with several agents, if one is lost, `DO` this: end, or continue with the others (default end)")
	set.StringSliceVar(&f.programs, "agent-program", nil,
		"with --on, copy the tare in one of these `FILES` to hosts of its architecture (default this program)")
	k := &f.kubernetes
	set.IntVar(&k.Agents, "kubernetes", 0, "generate the load in `N` pods of a Job, by kubectl (default none)")
	set.StringVar(&k.Context, "context", "", "with --kubernetes, use this `CONTEXT` of kubectl (default the current one)")
	set.StringVar(&k.Namespace, "namespace", "", "with --kubernetes, use this `NAMESPACE` (default the context's)")
	set.StringVar(&k.Image, "image", "", "with --kubernetes, run this container `IMAGE`, whose entrypoint is tare")
	set.StringToStringVar(&k.NodeSelector, "node-selector", nil,
		"with --kubernetes, use nodes with these `LABELS`, such as pool=load (default any)")
	set.StringToStringVar(&k.Requests, "pod-requests", nil,
		"with --kubernetes, request these `RESOURCES` for each pod, such as cpu=2,memory=1Gi (default none)")
	set.StringToStringVar(&k.Limits, "pod-limits", nil,
		"with --kubernetes, limit each pod to these `RESOURCES` (default none)")
	for _, name := range []string{"node-selector", "pod-requests", "pod-limits"} {
		set.Lookup(name).DefValue = "" // the usage states it
	}
	set.BoolVar(&f.printManifest, "print-manifest", false, "with --kubernetes, print the Job's YAML and exit")
}

func (f *fleetFlags) isUsed() bool { return f.on != nil || f.kubernetes.Agents > 0 }

func (f *fleetFlags) check() error {
	switch {
	case f.kubernetes.Agents < 0:
		return fmt.Errorf("load: --kubernetes %d: want 1 or more", f.kubernetes.Agents)
	case f.on != nil && len(f.on) == 0: // such as --on "$HOSTS"
		return errors.New("load: --on: want one or more hosts")
	}
	return nil
}

func parseOnLoss(text string) (fleet.OnLoss, error) {
	switch text {
	case "end":
		return fleet.End, nil
	case "continue":
		return fleet.Continue, nil
	}
	return 0, errors.New("want end or continue")
}

const maxLocal = 1024 // limits the agents of local:N

func (f *fleetFlags) hosts(env Env) (all []fleet.Host, err error) {
	var programs []*fleet.Program
	for _, on := range f.on {
		name, count, counted := strings.Cut(on, ":")
		if name == "local" {
			n := 1
			if counted {
				if n, err = strconv.Atoi(count); err != nil || n < 1 || n > maxLocal {
					return nil, fmt.Errorf("--on %q: want local:N, N from 1 to %d", on, maxLocal)
				}
			}
			own, err := os.Executable()
			if err != nil {
				return nil, err
			}
			for range n {
				all = append(all, fleet.Local("local", own))
			}
			continue
		}
		if on == "" || strings.HasPrefix(on, "-") {
			return nil, fmt.Errorf("--on %q: want local, local:N or a destination of ssh, such as user@host", on)
		}
		if programs == nil {
			if programs, err = f.openPrograms(env); err != nil {
				return nil, err
			}
		}
		all = append(all, fleet.SSH(on, programs))
	}
	return all, nil
}

func (f *fleetFlags) openPrograms(env Env) (all []*fleet.Program, err error) {
	own, err := os.Executable()
	if err != nil {
		return nil, err
	}
	for _, name := range append(slices.Clone(f.programs), own) {
		p, err := fleet.OpenProgram(env.path(name))
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// runFunc runs a Plan, as load.Run does.
type runFunc func(context.Context, load.Plan) (*load.Result, error)

// generate calls do with the function that runs Plans: in this process, or with agents, which end
// after do. The function do ends the display.
func (f *loadFlags) generate(ctx context.Context, env Env, display *progress, do func(runFunc) error) error {
	if !f.fleet.isUsed() {
		return do(f.runPlan)
	}
	note := func(text string) { display.print("%s", text) }
	all, remove, err := f.openFleet(ctx, env, note)
	if err != nil {
		display.end()
		return openFailure(ctx, err)
	}
	err = do(all.Run)
	all.Close()
	return joinClosing(err, remove())
}

// openFleet starts the agents. After the fleet was closed, the caller calls remove.
func (f *loadFlags) openFleet(ctx context.Context, env Env, note func(string)) (_ *fleet.Fleet, remove func() error,
	err error) {
	remove = func() error { return nil }
	var hosts []fleet.Host
	if f.fleet.kubernetes.Agents > 0 {
		job, err := fleet.StartJob(ctx, f.fleet.kubernetes, note)
		if err != nil {
			return nil, nil, err
		}
		hosts, remove = job.Hosts(), job.Delete
	} else if hosts, err = f.fleet.hosts(env); err != nil {
		return nil, nil, usageError(fmt.Errorf("load: %w", err))
	}
	all, err := fleet.Open(ctx, hosts, fleet.Options{OnLoss: f.fleet.onLoss, TLS: f.tls, Note: note})
	if err != nil {
		return nil, nil, errors.Join(withProgramFlag(err), remove())
	}
	return all, remove, nil
}

// withProgramFlag names the flag for hosts of an architecture without a program.
func withProgramFlag(err error) error {
	if _, ok := errors.AsType[*fleet.NoProgramError](err); ok {
		return fmt.Errorf("%w (and name it with --agent-program)", err)
	}
	return err
}

// lossError returns the error of a run that went on without lost agents, or nil.
func lossError(r *load.Result) error {
	var lost []string
	for i := range r.Parts {
		if r.Parts[i].Lost != "" {
			lost = append(lost, r.Parts[i].Name)
		}
	}
	if lost == nil {
		return nil
	}
	return fmt.Errorf("load: agents were lost: %s", strings.Join(lost, ", "))
}

func printManifest(env Env, f *fleetFlags) error {
	b, err := f.kubernetes.Manifest(fleet.NewJobName())
	if err == nil {
		_, err = env.Stdout.Write(b)
	}
	return err
}
