//go:build linux

package cli

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/fleet"
	"github.com/tarehq/tare/load/report"
)

const exitConnect = 3 // load's exit code if no connection could be opened

func loadCommand(env Env) *cobra.Command {
	flags := &loadFlags{runPlan: load.Run}
	c := &cobra.Command{
		Use:   "load URL",
		Short: "Generate load and measure the responses",
		Long: `Keep connections busy with requests and report rate, latency and errors.

By default the loop is closed: each connection sends its next request after the previous
response. A stalled server then receives fewer requests, which hides how many would have waited.
With --rate the loop is open: requests are due on a schedule, and latency counts from when they
were due.

The URL selects the protocol and the server:

  http://host:port/path      HTTP/1.1, or the version of --http1.0, --http2 or --http3
  https://host:port/path     HTTP over TLS
  http+unix:///socket:/path  HTTP over the unix socket /socket; likewise https+unix
  fcgi://host:port/path      FastCGI to an application, as a web server sends it
  fcgi+unix:///socket:/path  FastCGI over a unix socket; fcgis and fcgis+unix over TLS

The socket's path ends at the first colon. A colon inside it is written %3A.

The exit code is 0 on success, 1 after errors or unexpected responses, 2 if the command line is
invalid, 3 if no connection could be opened, and 130 after an interrupt.`,
		Example: `  tare load http://127.0.0.1:8080/ -c 64 -d 10s
  tare load http://127.0.0.1:8080/ -c 256 --rate 5000 --poisson --html run.html
  tare load http://127.0.0.1:8080/ -c 256 --find-max --slo 'p99<10ms,errors<0.1%'
  tare load http://127.0.0.1:8080/ --urls paths.txt --shuffle -n 100000 --json=run.json
  tare load http://10.0.0.1/ -c 20000 --rate 500k --on host1,host2,host3
  tare load fcgi+unix:///run/php/php-fpm.sock:/index.php --param DOCUMENT_ROOT=/var/www/app`,
		Args: flags.checkArgs,
		RunE: run(func(ctx context.Context, args []string) error {
			if err := flags.complete(ctx, env, args); err != nil && ctx.Err() != nil {
				return &exitError{exitStop, errors.New("interrupted before the first request")}
			} else if err != nil {
				return usageError(err)
			}
			if flags.http3 {
				end, err := flags.useHTTP3()
				if err != nil {
					return usageError(err)
				}
				defer end()
			}
			if flags.fleet.printManifest {
				return printManifest(env, &flags.fleet)
			}
			if flags.find.enabled {
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
		return usageError(err)
	}
	defer flags.outputs.close()
	about := about(flags)
	watch := newLive(newProgress(env.Stderr), &flags.plan)
	flags.plan.Trace.Started = func() { about.Started = time.Now() }
	return flags.generate(ctx, env, watch.display, func(run runFunc) error {
		r, err := run(ctx, flags.plan)
		watch.display.end()
		if r != nil {
			if err := showLoad(env, flags, &report.Run{Result: *r, About: about}, err); err != nil {
				return err
			}
		}
		if err := loadFailure(r, err); err != nil {
			return err
		}
		switch n := r.Errors.Total(); {
		case ctx.Err() != nil && err != nil:
			return &exitError{exitStop, errors.New("interrupted: the figures cover the time until then")}
		case err != nil:
			return err
		case len(flags.failIf.Bounds) > 0:
			return boundsError(flags.failIf, r)
		case n > 0:
			return fmt.Errorf("load: %s; the first: %s", report.CountErrors(n), r.Errors.First)
		}
		return lossError(r)
	})
}

// boundsError returns an error if a run violates a bound. Without a bound of errors, none may occur.
func boundsError(g load.Goal, r *load.Result) error {
	isErrors := func(b load.Bound) bool { return b.Figure == load.ErrorShare }
	if !slices.ContainsFunc(g.Bounds, isErrors) {
		g.Bounds = append(slices.Clip(g.Bounds), load.Bound{Figure: load.ErrorShare, Equal: true})
	}
	if unmet := r.Unmet(g); len(unmet) > 0 {
		return fmt.Errorf("load: --fail-if: %s", strings.Join(unmet, "; "))
	}
	return lossError(r)
}

// joinClosing adds the error of closing the agents to that of a run, and keeps its exit code.
func joinClosing(err, closeErr error) error {
	if e, ok := errors.AsType[*exitError](err); ok && closeErr != nil {
		return &exitError{e.code, errors.Join(e.err, closeErr)}
	}
	return errors.Join(err, closeErr)
}

func openFailure(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	interrupted := &exitError{exitStop, errors.New("interrupted before the agents had started")}
	if left, ok := errors.AsType[*fleet.LeftJobError](err); ok {
		return joinClosing(interrupted, left)
	}
	return interrupted
}

// loadFailure returns the error of a run without any response.
func loadFailure(r *load.Result, err error) error {
	if _, ok := errors.AsType[*load.PlanError](err); ok {
		return usageError(err)
	}
	if _, ok := errors.AsType[*load.ConnectError](err); ok {
		return &exitError{exitConnect, err}
	}
	if _, ok := errors.AsType[*fleet.Error](err); ok && (r == nil || r.Requests == 0) {
		return err
	}
	switch {
	case r == nil:
		return err
	case r.Requests > 0:
		return nil
	case err != nil:
		return &exitError{exitStop, errors.New("interrupted before the first response")}
	}
	return noResponse(r)
}

func noResponse(r *load.Result) error {
	why := r.Errors.First
	switch f := r.FastCGI; {
	case why == "" && r.InFlight > 0:
		why = fmt.Sprintf("%d requests were in flight at the end (raise --duration)", r.InFlight)
	case why == "":
		why = "no request was sent"
	case f != nil && f.Stderr != "":
		why += fmt.Sprintf("; first on STDERR: %q", f.Stderr)
	}
	return fmt.Errorf("load: no response from %s: %s", r.URL, why)
}

// showLoad writes the report and the output files. If no connection was opened, its error says all
// that the report would.
func showLoad(env Env, flags *loadFlags, r *report.Run, err error) error {
	if _, ok := errors.AsType[*load.ConnectError](err); !ok && !flags.outputs.usesStdout() {
		_ = r.WriteText(env.Stdout)
	}
	if n := flags.plan.Samples; n > 0 && len(r.Samples) >= n {
		fmt.Fprintf(env.Stderr, "--samples holds only the first %d requests; raise --keep to store more\n", n)
	}
	return flags.outputs.write(env, r)
}

func about(flags *loadFlags) report.About {
	return report.About{
		Started: time.Now(), // measuring begins later, if it does
		Tool:    toolVersion(),
		Flags:   flags.setFlags(),
		Machine: report.Machine{
			CPU: proc.CPUModel(), Cores: runtime.NumCPU(), Memory: proc.MemoryTotal(),
			Kernel: runtime.GOOS + " " + proc.Setting("kernel.osrelease"),
		},
	}
}
