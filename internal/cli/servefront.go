package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/tarehq/tare/front/nginxconf"
	"github.com/tarehq/tare/front/server"
	"github.com/tarehq/tare/upgrade"
)

const defaultUser = "nobody" // user that a server started as root becomes by default, as in nginx

type frontPlan struct {
	flags        *serveFlags
	file, prefix string // absolute; prefix may be empty
}

// runFront serves an nginx.conf until a signal, or only checks or explains it.
func runFront(ctx context.Context, env Env, plan *frontPlan) error {
	switch {
	case plan.flags.explain != "":
		return interruptible(ctx, func() error { return plan.runExplain(env) })
	case plan.flags.test:
		return interruptible(ctx, func() error { return plan.check(env) })
	}
	signal.Reset(os.Interrupt, syscall.SIGTERM, syscall.SIGHUP) // they end other commands
	// The server's signals are caught until the process exits: one that comes late must not end it.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2)
	return plan.reportError(env.Stderr, server.Run(ctx, plan.source(), plan.options(env)))
}

func (p *frontPlan) source() server.File {
	return server.File{Path: p.file, Options: nginxconf.Options{Prefix: p.prefix, Lenient: p.flags.lenient,
		HTTP3: http3Server() != nil, Tracing: spanTracing() != nil}}
}

func (p *frontPlan) options(env Env) server.Options {
	return server.Options{
		Stdout: env.Stdout, Stderr: env.Stderr, Grace: graceOption(p.flags.grace),
		Privileges: server.Privileges{User: p.flags.user, Group: p.flags.group, DefaultUser: defaultUser,
			Sandbox: "auto"},
		Upgrade: &upgrade.Options{}, HTTP3: http3Server(), Tracing: spanTracing(),
	}
}

// graceOption returns the value of server.Options.Grace for a --grace of 0 or more.
func graceOption(grace time.Duration) time.Duration {
	if grace == 0 {
		return -1
	}
	return grace
}

// reportError prints the errors of a configuration, one per line. It returns other errors, with the
// flag that they concern.
func (p *frontPlan) reportError(w io.Writer, err error) error {
	invalid, ok := errors.AsType[*server.ConfigError](err)
	switch {
	case errors.Is(err, server.ErrAborted):
		return fmt.Errorf("%w (raise --grace or worker_shutdown_timeout)", err)
	case !ok:
		return err
	case invalid.InOptions:
		return usageError(err)
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(w, "tare: serve: %s\n", strings.TrimRight(line, "\n"))
	}
	if !p.flags.lenient && errors.Is(err, errors.ErrUnsupported) {
		fmt.Fprintln(w, "tare: serve: --lenient ignores unsupported directives")
	}
	if p.flags.test {
		fmt.Fprintf(w, "tare: configuration file %s test failed\n", withoutEmptyNames(p.file)) // as nginx -t does
	} else {
		fmt.Fprintf(w, "tare: serve: %s: the configuration is invalid\n", p.file)
	}
	return &exitError{code: exitUsage}
}
