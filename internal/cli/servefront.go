package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/tarehq/tare/front/nginxconf"
	"github.com/tarehq/tare/front/server"
)

// defaultUser is the user that a server started as root becomes by default, as in nginx.
const defaultUser = "nobody"

// frontPlan is a parsed command line with an nginx.conf.
type frontPlan struct {
	file, prefix string // absolute; prefix may be empty
	user, group  string // override the file's
	lenient      bool
	test         bool
	grace        time.Duration
}

// runFront serves an nginx.conf until a signal, or only checks it.
func runFront(ctx context.Context, env Env, plan *frontPlan) error {
	source := server.File{Path: plan.file, Options: nginxconf.Options{Prefix: plan.prefix, Lenient: plan.lenient}}
	options := server.Options{
		Stdout: env.Stdout, Stderr: env.Stderr, Grace: graceOption(plan.grace),
		Privileges: server.Privileges{User: plan.user, Group: plan.group, DefaultUser: defaultUser,
			Sandbox: server.SandboxAuto},
	}
	if plan.test {
		if err := server.Check(source, options); err != nil {
			return plan.reportError(env.Stderr, err)
		}
		fmt.Fprintf(env.Stderr, "tare: %s: the configuration is valid\n", plan.file)
		return nil
	}
	signal.Reset(syscall.SIGHUP) // it ends other commands
	return plan.reportError(env.Stderr, server.Run(ctx, source, options))
}

// graceOption returns the value of server.Options.Grace for a --grace of 0 or more.
func graceOption(grace time.Duration) time.Duration {
	if grace == 0 {
		return -1
	}
	return grace
}

// reportError prints the errors of a configuration, one per line, and adds what the command knows
// to others.
func (p *frontPlan) reportError(w io.Writer, err error) error {
	invalid, ok := errors.AsType[*server.ConfigError](err)
	switch {
	case errors.Is(err, server.ErrAborted):
		return fmt.Errorf("%w (raise --grace)", err)
	case !ok:
		return err
	case invalid.InOptions:
		return usageError(err)
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(w, "tare: serve: %s\n", strings.TrimRight(line, "\n"))
	}
	if !p.lenient && errors.Is(err, nginxconf.ErrUnsupported) {
		fmt.Fprintln(w, "tare: serve: --lenient ignores unsupported directives")
	}
	fmt.Fprintf(w, "tare: serve: %s: the configuration is invalid\n", p.file)
	return &exitError{code: exitUsage}
}
