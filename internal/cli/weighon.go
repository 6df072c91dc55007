//go:build linux

package cli

import (
	"context"
	"errors"

	"github.com/spf13/pflag"

	"github.com/tarehq/tare/internal/lab"
	"github.com/tarehq/tare/internal/lab/remote"
)

type generatorFlags struct {
	on       []string // one host
	address  string
	programs []string // file names
}

func (f *generatorFlags) define(set *pflag.FlagSet) {
	set.StringSliceVar(&f.on, "on", nil,
		"generate the load on this `HOST`, a destination of ssh, or local for another process here (default this process)")
	set.StringVar(&f.address, "address", "",
		"with --on, the servers listen on this IPv4 `ADDRESS` of this machine (default the one that ssh connects from)")
	set.StringSliceVar(&f.programs, "agent-program", nil,
		"with --on, copy the tare in one of these `FILES` to a host of its architecture (default this program)")
}

// open starts the generator of --on, if there is one, and lets the options use it. The caller calls
// the function that it returns.
func (f *generatorFlags) open(ctx context.Context, env Env, o *lab.Options) (closeGenerator func(), err error) {
	if f.on == nil {
		return func() {}, nil
	}
	machines := fleetFlags{on: f.on, programs: f.programs}
	hosts, err := machines.hosts(env)
	if err != nil {
		return nil, usageError(err)
	}
	if len(hosts) != 1 {
		return nil, usageError(errors.New("--on: want one host"))
	}
	g, err := remote.Open(ctx, hosts[0], f.address, func(text string) { o.Logf("%s", text) })
	if err != nil {
		return nil, withProgramFlag(err)
	}
	o.Generator = g
	return g.Close, nil
}
