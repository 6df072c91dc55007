package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/tarehq/tare/lab/report"
	"github.com/tarehq/tare/load"
)

func loadCommand(env Env) *cobra.Command {
	var plan load.Plan
	var asJSON bool
	c := &cobra.Command{
		Use:   "load URL",
		Short: "Generate load and measure what comes back",
		Long: `Keep connections busy with requests for a time, and report rate, latency and errors.

Each connection sends its next request when the response to the last one is
complete, so the latency is the service time under that many clients.

The URL says what is spoken, and where:

  http://host:port/path      HTTP/1.1
  http+unix:///socket:/path  HTTP/1.1 over the unix socket /socket
  fcgi://host:port/path      FastCGI, to an application, as a web server does
  fcgi+unix:///socket:/path  FastCGI over a unix socket

The path of a socket ends at the first colon. One that belongs to it is written %3A.`,
		Example: `  tare load http://127.0.0.1:8080/ -c 64 -d 10s
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

// printLoad writes the report for a person.
func printLoad(out io.Writer, r *load.Result) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintf(out, "%s\n%d connections, %d threads, %.1fs\n\n", r.URL, r.Connections, r.Threads, r.Seconds)
	fmt.Fprintf(w, "requests\t%d\t%s/s\n", r.Requests, count(r.PerSecond()))
	fmt.Fprintf(w, "received\t%s\t%s/s\n", size(float64(r.Bytes)), size(float64(r.Bytes)/max(r.Seconds, 1e-9)))
	fmt.Fprintf(w, "latency\tmean %s\tstdev %s\n", short(r.Latency.Mean()), short(r.Latency.Stdev()))
	for _, row := range [][]float64{{0.5, 0.75}, {0.9, 0.99}, {0.999, 1}} {
		fmt.Fprint(w, "\t")
		for _, q := range row {
			name := fmt.Sprintf("%.4g%%", 100*q)
			if q == 1 {
				name = "max"
			}
			fmt.Fprintf(w, "%s %s\t", name, short(r.Latency.Quantile(q)))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "statuses\t%s\n", statuses(r.Statuses))
	fmt.Fprintf(w, "errors\t%s\n", errorKinds(r.Errors))
	fmt.Fprintf(w, "connections\t%d made before\t%d while measuring\n", r.Opened, r.Connects)
	fmt.Fprintf(w, "generator\t%.0f%% busy\t%s requests per CPU second\n", 100*r.Generator.Busy, count(r.PerCPUSecond()))
	if f := r.FastCGI; f != nil {
		fmt.Fprintf(w, "FastCGI\t%s on STDERR\t%d exit codes not 0\t%d requests sent again\n", size(float64(f.StderrBytes)), f.Exits, f.Resent)
	}
	if len(r.Timeline) > 1 {
		fmt.Fprintf(w, "each second\t%s\n", sparkline(r.Timeline, r.Seconds))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if r.Errors.First != "" {
		fmt.Fprintf(out, "\nfirst error: %s\n", r.Errors.First)
	}
	if f := r.FastCGI; f != nil && f.Stderr != "" {
		fmt.Fprintf(out, "\nfirst on STDERR: %q\n", f.Stderr)
	}
	if r.Generator.Busy >= report.BusyBound {
		fmt.Fprintf(out, "\nThe generator was busy %.0f%% of the time: it, not the server, may have set the pace.\n", 100*r.Generator.Busy)
	}
	return nil
}

func statuses(m map[int]uint64) string {
	var parts []string
	for _, code := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, fmt.Sprintf("%d: %d", code, m[code]))
	}
	return strings.Join(parts, "  ")
}

func errorKinds(e load.Errors) string {
	if e.Total() == 0 {
		return "none"
	}
	return fmt.Sprintf("connect %d  read %d  write %d  timeout %d  status %d", e.Connect, e.Read, e.Write, e.Timeout, e.Status)
}

// sparkline draws the rate of each second; the last may be a part of one.
func sparkline(seconds []load.Second, total float64) string {
	bars := []rune("▁▂▃▄▅▆▇█")
	rates := make([]float64, len(seconds))
	for i, s := range seconds {
		rates[i] = float64(s.Requests) / min(1, max(total-float64(i), 0.05))
	}
	most := max(slices.Max(rates), 1)
	var s strings.Builder
	for _, rate := range rates {
		s.WriteRune(bars[int(rate/most*float64(len(bars)-1)+0.5)])
	}
	return fmt.Sprintf("%s  %s to %s requests/s", s.String(), count(slices.Min(rates)), count(most))
}

// count writes a number as people read it: 116,154.
func count(n float64) string {
	s := fmt.Sprintf("%.0f", n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func size(n float64) string {
	units := []string{"B", "KB", "MB", "GB", "TB"}
	i := 0
	for n >= 1000 && i < len(units)-1 {
		n /= 1000
		i++
	}
	return fmt.Sprintf("%.3g %s", n, units[i])
}

// short writes a duration with three digits.
func short(d time.Duration) string {
	switch {
	case d >= time.Second:
		return fmt.Sprintf("%.3gs", d.Seconds())
	case d >= time.Millisecond:
		return fmt.Sprintf("%.3gms", d.Seconds()*1e3)
	}
	return fmt.Sprintf("%.3gµs", d.Seconds()*1e6)
}
