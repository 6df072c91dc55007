package cli

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"github.com/tarehq/tare/lab/proc"
	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/report"
)

// exitConnect is load's exit code if no connection could be made.
const exitConnect = 3

func loadCommand(env Env) *cobra.Command {
	flags := new(loadFlags)
	c := &cobra.Command{
		Use:   "load URL",
		Short: "Generate load and measure what comes back",
		Long: `Keep connections busy with requests for a time, and report rate, latency and errors.

Each connection sends its next request when the response to the last one is
complete, so the latency is the service time under that many clients: a closed loop. A
server that stalls is asked less then, and hides how many would have waited. With --rate
requests are due at times of their own, and their latency counts from then: an open loop.

The URL says what is spoken, and where:

  http://host:port/path      HTTP/1.1, or what --http1.0 and --http2 say
  https://host:port/path     over TLS
  http+unix:///socket:/path  over the unix socket /socket; likewise https+unix
  fcgi://host:port/path      FastCGI, to an application, as a web server does
  fcgi+unix:///socket:/path  FastCGI over a unix socket; fcgis and fcgis+unix over TLS

The path of a socket ends at the first colon. One that belongs to it is written %3A.

The exit code is 0 if all was well, 1 if anything was not as expected, 2 if the command line
is wrong, 3 if no connection could be made, and 130 after an interrupt.`,
		Example: `  tare load http://127.0.0.1:8080/ -c 64 -d 10s
  tare load http://127.0.0.1:8080/ -c 256 --rate 5000 --poisson --html run.html
  tare load http://127.0.0.1:8080/ -c 256 --find-max --slo 'p99<10ms,errors<0.1%'
  tare load http://127.0.0.1:8080/ --urls paths.txt --shuffle -n 100000 --json=run.json
  tare load fcgi+unix:///run/php/php-fpm.sock:/index.php --param DOCUMENT_ROOT=/var/www/app`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 0 && flags.urls == "" {
				return fmt.Errorf("load: want one URL, got %d arguments", len(args))
			}
			return nil
		},
		RunE: run(func(ctx context.Context, args []string) error {
			if err := flags.ready(env, args); err != nil {
				return usage(err)
			}
			if flags.find.on {
				return runFindMax(ctx, env, flags)
			}
			return runLoad(ctx, env, flags)
		}),
	}
	c.Flags().SortFlags = false
	flags.define(c)
	c.AddCommand(loadCompareCommand(env))
	return c
}

func runLoad(ctx context.Context, env Env, flags *loadFlags) error {
	if err := flags.outputs.open(env); err != nil {
		return usage(err)
	}
	defer flags.outputs.close()
	about := about(flags)
	watch := newLive(newProgress(env.Stderr, 0), &flags.plan)
	flags.plan.Trace.Started = func() { about.Started = time.Now() }
	r, err := load.Run(ctx, flags.plan)
	watch.end()
	if err := loadFailure(r, err); err != nil {
		return err
	}
	if outErr := showLoad(env, flags, &report.Run{Result: *r, About: about}); outErr != nil {
		return outErr
	}
	switch n := r.Errors.Total(); {
	case err != nil:
		return &exit{exitStop, errors.New("interrupted: the figures are of the time until then")}
	case n > 0:
		return fmt.Errorf("load: not all was as expected: errors: %d", n)
	}
	return nil
}

// loadFailure is the error of a run that has nothing to show.
func loadFailure(r *load.Result, err error) error {
	if _, ok := errors.AsType[*load.PlanError](err); ok {
		return usage(err)
	}
	if _, ok := errors.AsType[*load.ConnectError](err); ok {
		return &exit{exitConnect, err}
	}
	switch {
	case r == nil:
		return err
	case r.Requests > 0:
		return nil
	case err != nil:
		return &exit{exitStop, errors.New("interrupted before any response came")}
	}
	return noResponse(r)
}

func noResponse(r *load.Result) error {
	if f := r.FastCGI; f != nil && f.Stderr != "" {
		return fmt.Errorf("load: no response from %s: %s; first on STDERR: %q", r.URL, r.Errors.First, f.Stderr)
	}
	return fmt.Errorf("load: no response from %s: %s", r.URL, r.Errors.First)
}

// showLoad writes the report and the files.
func showLoad(env Env, flags *loadFlags, r *report.Run) error {
	if !flags.outputs.printed() {
		if err := r.WriteText(env.Stdout); err != nil {
			return err
		}
	}
	if n := flags.plan.Samples; n > 0 && len(r.Samples) >= n {
		fmt.Fprintf(env.Stderr, "only the first %d requests are in --samples; --keep keeps more\n", n)
	}
	return flags.outputs.write(env, r)
}

// about is what a report says of the run besides its result.
func about(flags *loadFlags) report.About {
	return report.About{
		Tool:  version() + " " + runtime.Version(),
		Flags: flags.given(),
		Machine: report.Machine{
			CPU: proc.CPUModel(), Cores: runtime.NumCPU(), Memory: proc.MemoryTotal(),
			Kernel: runtime.GOOS + " " + proc.Sysctl("kernel.osrelease"),
		},
	}
}
