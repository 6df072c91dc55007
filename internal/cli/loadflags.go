//go:build linux

package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/agent"
)

// loadFlags holds the command line of load. Most of it is a Plan.
type loadFlags struct {
	plan load.Plan

	http10, http2  bool
	http3          bool
	closeEach      bool
	bodyFile, urls string // file names; "-" is standard input
	expectBody     string // likewise
	insecure       bool
	caCert         string
	cert, key      string
	sni            string
	maxSamples     int // number of samples to store
	failIf         load.Goal
	replay         replay
	find           findMax
	fleet          fleetFlags
	outputs        outputs
	tls            *agent.TLS // of the plan; nil without any
	runPlan        runFunc    // runs a Plan in this process

	command *cobra.Command
}

func (f *loadFlags) define(c *cobra.Command) {
	f.command = c
	f.defineLoad(c)
	f.defineRequest(c)
	f.defineConnection(c)
	f.find.define(c)
	f.fleet.define(c)
	f.outputs.define(c)
	c.Flags().IntVar(&f.maxSamples, "keep", defaultKeep, "store the first `N` requests of --samples")
}

const defaultKeep = 1_000_000 // default number of samples; each takes about 100 bytes

// defineLoad defines the flags for the amount and duration of the load.
func (f *loadFlags) defineLoad(c *cobra.Command) {
	set, plan := c.Flags(), &f.plan
	set.IntVarP(&plan.Connections, "connections", "c", load.DefaultConnections, "keep `N` connections busy")
	set.DurationVarP(&plan.Duration, "duration", "d", load.DefaultDuration,
		"measure for `TIME`, such as 500ms or 1m; with --requests a limit only if set")
	set.DurationVarP(&plan.Warmup, "warmup", "w", 0, "send requests for `TIME` before measuring (default 0s)")
	set.Uint64VarP(&plan.Requests, "requests", "n", 0, "end after `N` requests (default unlimited)")
	set.IntVarP(&plan.Threads, "threads", "t", 0, "use `N` threads (default one per CPU)")
	set.DurationVar(&plan.Timeout, "timeout", load.DefaultTimeout,
		"count a connection or response as an error after `TIME`")
	set.VarP(parsed("rate", &plan.Pace.Steps, parsePace), "rate", "R",
		"send `N` requests/s on a schedule: 1000, a ramp 0:1000/1m, or steps 500/10s,1000/10s (default closed loop)")
	set.BoolVar(&plan.Pace.Poisson, "poisson", false,
		"with --rate, send requests at random times, like independent users, instead of evenly spaced")
	set.DurationVar(&plan.Think, "think", 0,
		"pause each connection after a response for a random time up to `TIME` (default 0s)")
	set.IntVar(&plan.Pipeline, "pipeline", 1,
		"send up to `N` concurrent requests per connection (HTTP/1 pipelining, or HTTP/2 streams)")
	set.IntSliceVar(&plan.CPUs, "cpus", nil, "bind the threads to these `CPUS`, such as 1 or 2,3 (default unbound)")
}

// defineRequest defines the flags for requests and expected responses.
func (f *loadFlags) defineRequest(c *cobra.Command) {
	set, plan := c.Flags(), &f.plan
	set.StringVarP(&plan.Method, "method", "X", "GET", "send requests with `METHOD`")
	set.StringArrayVarP(&plan.Header, "header", "H", nil,
		"send a header field `\"Name: value\"`; may be repeated (default none)")
	set.StringVar(&plan.Body, "body", "", "send `TEXT` as the body (default none)")
	set.StringVar(&f.bodyFile, "body-file", "",
		"send the contents of `FILE` as the body; - is standard input (default none)")
	set.StringArrayVar(&plan.Params, "param", nil,
		"send a FastCGI parameter `NAME=value`, such as DOCUMENT_ROOT=/srv; may be repeated (default nginx's fastcgi_params)")
	set.StringVar(&f.urls, "urls", "", "send the requests of `FILE` in turn, one \"[METHOD] URL-or-path\" per line; - is standard input (default none)")
	set.StringVar(&f.replay.file, "replay", "",
		"send the GET and HEAD requests of this access log `FILE`, in the common or combined format, at their times")
	set.Float64Var(&f.replay.speed, "speed", 1, "with --replay, divide the times by this `FACTOR`")
	set.BoolVar(&plan.Shuffle, "shuffle", false, "with --urls, pick requests at random")
	set.BoolVar(&plan.Template, "template", false,
		"replace {{seq}}, {{seq 5 9}}, {{random 5 9}} and {{hex 8}} in URLs, header fields and the body")
	set.Var(parsed("statuses", &plan.Expect.Status, parseStatuses), "expect-status",
		"count responses without these `STATUSES` as errors, such as 200,304 or 2xx (default all below 400)")
	set.StringVar(&f.expectBody, "expect-body", "",
		"count bodies other than the contents of `FILE` as errors; - is standard input (default any body)")
	set.Uint64Var(&plan.MaxErrors, "max-errors", 0, "end after `N` errors (default unlimited)")
	set.Var(parsed("bounds", &f.failIf, load.ParseGoal), "fail-if",
		"exit with 1 if the run violates one of these `BOUNDS` of percentiles, mean, max, rps or errors, such as 'p99<20ms,errors<0.1%'\n(default errors>0)")
	set.StringArrayVar(&plan.Expect.Header, "expect-header", nil,
		"count responses without the field `\"Name: value\"`, or Name, in head or trailer section as errors, such as\n\"grpc-status: 0\"; may be repeated (default none)")
}

func (f *loadFlags) defineConnection(c *cobra.Command) {
	set, plan := c.Flags(), &f.plan
	set.BoolVar(&f.http10, "http1.0", false, "use HTTP/1.0")
	set.BoolVar(&f.http2, "http2", false, "use HTTP/2, without TLS by prior knowledge")
	set.BoolVar(&f.http3, "http3", false, "use HTTP/3, in programs built with -tags http3")
	set.IntVar(&plan.PerConnection, "requests-per-connection", 0,
		"close a connection after `N` requests (default unlimited)")
	set.BoolVar(&f.closeEach, "close", false, "open a connection for each request, like --requests-per-connection 1")
	set.Var(parsed("addresses", &plan.Sources, parseAddresses), "source",
		"connect from these local `ADDRESSES` in turn, such as 127.0.0.2,127.0.0.3 (default chosen by the system)")
	set.BoolVar(&f.insecure, "insecure", false, "accept any certificate")
	set.StringVar(&f.caCert, "cacert", "", "trust the certificates of this PEM `FILE` (default the system's)")
	set.StringVar(&f.cert, "cert", "", "send the client certificate of this PEM `FILE` (default none)")
	set.StringVar(&f.key, "key", "", "read the certificate's key from this PEM `FILE` (default the file of --cert)")
	set.StringVar(&f.sni, "sni", "",
		"send and verify this server `NAME` in TLS, also if the URL has an address (default the URL's host)")
}

// setFlags returns the values of the flags on the command line that change the load, without
// passwords and other secrets, because reports are shared.
func (f *loadFlags) setFlags() map[string]string {
	others := []string{"json", "csv", "hdr", "bench", "html", "samples", "keep", "key", "agent-program"}
	given := make(map[string]string)
	f.command.Flags().Visit(func(flag *pflag.Flag) {
		if !slices.Contains(others, flag.Name) {
			given[flag.Name] = flag.Value.String()
		}
	})
	if len(f.plan.Header) > 0 {
		var shown []string
		for _, field := range f.plan.Header {
			shown = append(shown, redact(field))
		}
		given["header"] = strings.Join(shown, ", ")
	}
	return given
}

func redact(field string) string {
	name, _, _ := strings.Cut(field, ":")
	switch strings.ToLower(strings.TrimSpace(name)) {
	case "authorization", "proxy-authorization", "cookie", "x-api-key":
		return name + ": (not shown)"
	}
	return field
}

// checkArgs returns an error for arguments other than one URL, which names the likely mistake.
func (f *loadFlags) checkArgs(c *cobra.Command, args []string) error {
	c.SuggestionsMinimumDistance = 2 // edits of a misspelled name
	for _, arg := range args {
		if strings.Contains(arg, "://") {
			continue
		}
		if f.outputs.usesStdout() && c.Flags().Changed("json") {
			return fmt.Errorf("load: %q is no URL: a file of --json follows an equals sign: --json=%s", arg, arg)
		}
		if near := c.SuggestionsFor(arg); len(near) > 0 {
			return fmt.Errorf("load: %q is no URL: did you mean load %s?", arg, near[0])
		}
	}
	if len(args) > 1 || len(args) == 0 && f.urls == "" {
		return fmt.Errorf("load: want one URL, got %d arguments", len(args))
	}
	return nil
}

func (f *loadFlags) checkTogether() error {
	err := checkFlags(f.command.Flags(), []requirement{
		{"slo from to precision", "find-max"}, {"poisson", "rate find-max"}, {"shuffle", "urls"}, {"speed", "replay"},
		{"keep", "samples"}, {"key", "cert"}, {"on-loss", "on kubernetes"}, {"agent-program", "on"},
		{"kubernetes", "image"},
		{"context namespace image node-selector pod-requests pod-limits print-manifest", "kubernetes"},
	}, []exclusion{
		{"find-max", "rate requests fail-if csv hdr bench html samples", ": --find-max runs at many rates"},
		{"replay", "rate urls find-max warmup threads method body body-file on kubernetes poisson",
			": the log determines the requests and their times"},
		{"http1.0", "http2 http3", ""}, {"http3", "http2 on kubernetes source", ""}, {"on", "kubernetes", ""},
		{"close", "requests-per-connection", ""}, {"body", "body-file", ""},
	})
	if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	return nil
}

func (f *loadFlags) complete(ctx context.Context, env Env, args []string) error {
	plan, changed := &f.plan, f.command.Flags().Changed
	err := checkAboveZero(f.command.Flags(), "connections", "requests", "threads", "timeout", "pipeline",
		"requests-per-connection", "max-errors", "kubernetes")
	if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	if err := cmp.Or(f.checkTogether(), f.fleet.check()); err != nil {
		return err
	}
	switch {
	case f.http10:
		plan.Version = load.HTTP10
	case f.http2:
		plan.Version = load.HTTP2
	}
	if f.closeEach {
		plan.PerConnection = 1
	}
	if err := f.find.complete(f); err != nil {
		return err
	}
	if err := f.replay.complete(ctx, env, f); err != nil {
		return err
	}
	switch bounded := plan.Requests > 0; {
	case bounded && !changed("duration"):
		plan.Duration = 0
	case !bounded && plan.Duration == 0:
		return errors.New("load: --duration 0 measures nothing: want a duration such as 10s, or --requests")
	}
	if changed("samples") {
		if f.maxSamples < 1 {
			return fmt.Errorf("load: --keep %d: want 1 or more", f.maxSamples)
		}
		plan.Samples = f.maxSamples
	}
	if err := f.readFiles(ctx, env); err != nil {
		return err
	}
	return f.setURL(args)
}

func (f *loadFlags) setURL(args []string) error {
	if len(args) == 1 {
		f.plan.URL = args[0]
		return nil
	}
	for _, q := range f.plan.List {
		if !strings.HasPrefix(q.URL, "/") {
			f.plan.URL = q.URL
			return nil
		}
	}
	return fmt.Errorf("load: want one URL, got %d arguments", len(args))
}
