package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/tarehq/tare/load"
)

func loadCommand(env Env) *cobra.Command {
	var plan load.Plan
	var asJSON bool
	pace := paceFlag{&plan.Pace}
	c := &cobra.Command{
		Use:   "load URL",
		Short: "Generate load and measure what comes back",
		Long: `Keep connections busy with requests for a time, and report rate, latency and errors.

Each connection sends its next request when the response to the last one is
complete, so the latency is the service time under that many clients: a closed loop. A
server that stalls is asked less then, and hides how many would have waited. With --rate
requests are due at times of their own, and their latency counts from then: an open loop.

The URL says what is spoken, and where:

  http://host:port/path      HTTP/1.1
  http+unix:///socket:/path  HTTP/1.1 over the unix socket /socket
  fcgi://host:port/path      FastCGI, to an application, as a web server does
  fcgi+unix:///socket:/path  FastCGI over a unix socket

The path of a socket ends at the first colon. One that belongs to it is written %3A.`,
		Example: `  tare load http://127.0.0.1:8080/ -c 64 -d 10s
  tare load http://127.0.0.1:8080/ -c 256 --rate 5000 --poisson
  tare load fcgi+unix:///run/php/php-fpm.sock:/index.php --param DOCUMENT_ROOT=/var/www/app`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("load: want one URL, got %d arguments", len(args))
			}
			return nil
		},
		RunE: run(func(ctx context.Context, args []string) error {
			plan.URL = args[0]
			return runLoad(ctx, env, plan, asJSON)
		}),
	}
	f := c.Flags()
	f.IntVarP(&plan.Connections, "connections", "c", load.DefaultConnections, "`number` of connections to keep busy")
	f.DurationVarP(&plan.Duration, "duration", "d", load.DefaultDuration, "`time` to measure, such as 500ms or 1m")
	f.DurationVarP(&plan.Warmup, "warmup", "w", 0, "`time` to load before measuring (default 0s)")
	f.IntVarP(&plan.Threads, "threads", "t", 0, "`number` of threads (default one for each processor)")
	f.DurationVar(&plan.Timeout, "timeout", load.DefaultTimeout, "`time` to wait for a connection or a response before it counts as an error")
	f.VarP(pace, "rate", "R", "`requests` due each second: 1000, from 0 to 1000 in a minute as 0:1000/1m, or several such steps as 500/10s,1000/10s (default a closed loop)")
	f.BoolVar(&plan.Pace.Poisson, "poisson", false, "with --rate: requests come at random, like those of independent users, not evenly spaced")
	f.StringVarP(&plan.Method, "method", "X", "GET", "request `method`")
	f.StringArrayVarP(&plan.Header, "header", "H", nil, "request header `\"Name: value\"`; may be repeated (default none)")
	f.StringArrayVar(&plan.Params, "param", nil, "FastCGI parameter `NAME=value`, such as DOCUMENT_ROOT=/srv; may be repeated (default those of nginx's fastcgi_params)")
	f.StringVar(&plan.Body, "body", "", "request body, as `text` (default none)")
	f.IntSliceVar(&plan.CPUs, "cpus", nil, "`processors` to bind the threads to, such as 1 or 2,3 (default any)")
	f.BoolVar(&asJSON, "json", false, "print the result as JSON, with the whole latency histogram")
	return c
}

func runLoad(ctx context.Context, env Env, plan load.Plan, asJSON bool) error {
	p := newProgress(env.Stderr, plan.Duration)
	plan.Trace = &load.Trace{Progress: func(g load.Progress) {
		if !g.Measuring {
			p.set(0, "warming up")
			return
		}
		p.set(g.Elapsed, "%s of %s  %s requests/s  %d errors",
			g.Elapsed.Round(glance), plan.Duration, count(float64(g.Requests)/g.Elapsed.Seconds()), g.Errors)
	}}
	if plan.Pace.Poisson && len(plan.Pace.Steps) == 0 {
		return usage(errors.New("load: --poisson says how the requests of a --rate come; give one"))
	}
	r, err := load.Run(ctx, plan)
	p.end()
	if _, ok := errors.AsType[*load.PlanError](err); ok {
		return usage(err)
	}
	if r == nil {
		return err
	}
	if r.Requests == 0 && err == nil {
		return noResponse(r)
	}
	if asJSON {
		b, jsonErr := json.MarshalIndent(r, "", "  ")
		if jsonErr != nil {
			return jsonErr
		}
		fmt.Fprintln(env.Stdout, string(b))
	} else if err := printLoad(env.Stdout, r); err != nil {
		return err
	}
	if err != nil {
		return &exit{exitStop, errors.New("interrupted: the figures are of the time until then")}
	}
	return nil
}

func noResponse(r *load.Result) error {
	if f := r.FastCGI; f != nil && f.Stderr != "" {
		return fmt.Errorf("load: no response from %s: %s; first on STDERR: %q", r.URL, r.Errors.First, f.Stderr)
	}
	return fmt.Errorf("load: no response from %s: %s", r.URL, r.Errors.First)
}
