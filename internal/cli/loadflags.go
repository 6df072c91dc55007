package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/tarehq/tare/load"
)

// loadFlags are what the command line of load says. Most of it is a plan.
type loadFlags struct {
	plan load.Plan

	http10, http2  bool
	closing        bool
	bodyFile, urls string // names of files; "-" is standard input
	insecure       bool
	caCert         string
	cert, key      string
	sni            string
	keep           int // of samples
	find           findMax
	outputs        outputs

	command *cobra.Command
}

func (f *loadFlags) define(c *cobra.Command) {
	f.command = c
	f.defineLoad(c)
	f.defineRequest(c)
	f.defineConnection(c)
	f.find.define(c)
	f.outputs.define(c)
	c.Flags().IntVar(&f.keep, "keep", defaultKeep, "with --samples: `number` of requests to keep, from the first on")
}

// defaultKeep is how many samples are kept: a hundred bytes each.
const defaultKeep = 1_000_000

// defineLoad defines how much, and for how long.
func (f *loadFlags) defineLoad(c *cobra.Command) {
	set, plan := c.Flags(), &f.plan
	set.IntVarP(&plan.Connections, "connections", "c", load.DefaultConnections, "`number` of connections to keep busy")
	set.DurationVarP(&plan.Duration, "duration", "d", load.DefaultDuration, "`time` to measure, such as 500ms or 1m; with --requests at most that, if it is given")
	set.DurationVarP(&plan.Warmup, "warmup", "w", 0, "`time` to load before measuring (default 0s)")
	set.Uint64VarP(&plan.Requests, "requests", "n", 0, "`number` of requests after which to end (default no bound)")
	set.IntVarP(&plan.Threads, "threads", "t", 0, "`number` of threads (default one for each processor)")
	set.DurationVar(&plan.Timeout, "timeout", load.DefaultTimeout, "`time` to wait for a connection or a response before it counts as an error")
	set.VarP(&textFlag{kind: "rate", read: func(text string) (err error) {
		plan.Pace.Steps, err = parsePace(text)
		return err
	}}, "rate", "R", "`requests` due each second: 1000, from 0 to 1000 in a minute as 0:1000/1m, or several such steps as 500/10s,1000/10s (default a closed loop)")
	set.BoolVar(&plan.Pace.Poisson, "poisson", false, "with --rate: requests come at random, like those of independent users, not evenly spaced")
	set.DurationVar(&plan.Think, "think", 0, "longest `time` a connection rests after a response, at random (default 0s)")
	set.IntVar(&plan.Pipeline, "pipeline", 1, "`number` of requests under way on a connection at a time; of HTTP/2, of its streams")
	set.IntSliceVar(&plan.CPUs, "cpus", nil, "`processors` to bind the threads to, such as 1 or 2,3 (default any)")
}

// defineRequest defines what is sent, and what is to come back.
func (f *loadFlags) defineRequest(c *cobra.Command) {
	set, plan := c.Flags(), &f.plan
	set.StringVarP(&plan.Method, "method", "X", "GET", "request `method`")
	set.StringArrayVarP(&plan.Header, "header", "H", nil, "request header `\"Name: value\"`; may be repeated (default none)")
	set.StringVar(&plan.Body, "body", "", "request body, as `text` (default none)")
	set.StringVar(&f.bodyFile, "body-file", "", "`file` with the request body; - is standard input (default none)")
	set.StringArrayVar(&plan.Params, "param", nil, "FastCGI parameter `NAME=value`, such as DOCUMENT_ROOT=/srv; may be repeated (default those of nginx's fastcgi_params)")
	set.StringVar(&f.urls, "urls", "", "`file` with requests to send in turn, each a line: [METHOD] and a URL or a path; - is standard input (default none)")
	set.BoolVar(&plan.Shuffle, "shuffle", false, "with --urls: take them at random")
	set.BoolVar(&plan.Template, "template", false, "put values where URLs, headers and body have {{seq}}, {{seq 5 9}}, {{random 5 9}} or {{hex 8}}")
	set.Var(&textFlag{kind: "statuses", read: func(text string) (err error) {
		plan.Expect.Status, err = parseStatuses(text)
		return err
	}}, "expect-status", "`statuses` that are right, such as 200,304 or 2xx; all others are errors (default all below 400)")
	set.StringVar(&plan.Expect.BodySHA256, "expect-body-sha256", "", "SHA-256 of the right body, in `hexadecimal` (default any body)")
	set.Uint64Var(&plan.MaxErrors, "max-errors", 0, "`number` of errors after which to end (default no bound)")
	set.StringArrayVar(&plan.Expect.Header, "expect-header", nil, "header `\"Name: value\"`, or Name, that a response must have; may be repeated (default none)")
}

// defineConnection defines what is spoken, and where.
func (f *loadFlags) defineConnection(c *cobra.Command) {
	set, plan := c.Flags(), &f.plan
	set.BoolVar(&f.http10, "http1.0", false, "speak HTTP/1.0")
	set.BoolVar(&f.http2, "http2", false, "speak HTTP/2; without TLS the server must know beforehand")
	set.IntVar(&plan.PerConnection, "requests-per-connection", 0, "`number` of requests a connection is used for (default no bound)")
	set.BoolVar(&f.closing, "close", false, "make a connection for each request, like --requests-per-connection 1")
	set.StringArrayVar(&plan.Resolve, "resolve", nil, "connect to another address, as `host:port:address`; may be repeated (default none)")
	set.Var(&textFlag{kind: "addresses", read: func(text string) (err error) {
		plan.Sources, err = parseAddresses(text)
		return err
	}}, "source", "local `addresses` to connect from, in turn, such as 127.0.0.2,127.0.0.3 (default the system's choice)")
	set.BoolVar(&f.insecure, "insecure", false, "accept any certificate")
	set.StringVar(&f.caCert, "cacert", "", "PEM `file` with the certificates to trust (default the system's)")
	set.StringVar(&f.cert, "cert", "", "PEM `file` with a certificate to show to the server (default none)")
	set.StringVar(&f.key, "key", "", "PEM `file` with its key (default the one of --cert)")
	set.StringVar(&f.sni, "sni", "", "`name` of the server to ask for and to check, in TLS (default the URL's host)")
}

// planned are the flags that say what was done, for a report to repeat.
func planned() []string {
	return []string{
		"connections", "duration", "warmup", "requests", "threads", "timeout", "rate", "poisson", "think", "pipeline", "cpus",
		"method", "header", "body", "body-file", "param", "urls", "shuffle", "template",
		"expect-status", "expect-body-sha256", "expect-header", "max-errors",
		"http1.0", "http2", "requests-per-connection", "close", "resolve", "source", "insecure", "cacert", "cert", "sni",
		"find-max", "slo", "from", "to", "precision",
	}
}

// given returns the planned flags that are on the command line. Passwords and the like are left
// out: a report is for others, too.
func (f *loadFlags) given() map[string]string {
	given := make(map[string]string)
	set := f.command.Flags()
	for _, name := range planned() {
		if flag := set.Lookup(name); flag.Changed {
			given[name] = flag.Value.String()
		}
	}
	if len(f.plan.Header) > 0 {
		var shown []string
		for _, field := range f.plan.Header {
			shown = append(shown, withoutSecret(field))
		}
		given["header"] = strings.Join(shown, ", ")
	}
	return given
}

// withoutSecret is a header field without a value that others must not know.
func withoutSecret(field string) string {
	name, _, _ := strings.Cut(field, ":")
	switch strings.ToLower(strings.TrimSpace(name)) {
	case "authorization", "proxy-authorization", "cookie", "x-api-key":
		return name + ": (not shown)"
	}
	return field
}

// ready completes the plan by what it needs of other flags and of files.
func (f *loadFlags) ready(env Env, args []string) error {
	plan, changed := &f.plan, f.command.Flags().Changed
	switch {
	case f.http10 && f.http2:
		return errors.New("load: want --http1.0 or --http2, not both")
	case f.http10:
		plan.Version = load.HTTP10
	case f.http2:
		plan.Version = load.HTTP2
	}
	if f.closing {
		if changed("requests-per-connection") {
			return errors.New("load: --close is --requests-per-connection 1; want one of them")
		}
		plan.PerConnection = 1
	}
	if plan.Pace.Poisson && len(plan.Pace.Steps) == 0 && !f.find.on {
		return errors.New("load: --poisson says how the requests of a --rate come; give one")
	}
	if err := f.find.ready(f); err != nil {
		return err
	}
	switch bounded := plan.Requests > 0; {
	case bounded && !changed("duration"):
		plan.Duration = 0
	case !bounded && plan.Duration == 0:
		return errors.New("load: --duration 0 measures nothing: want a time such as 10s, or --requests")
	}
	if f.outputs.wanted("samples") {
		if f.keep < 1 {
			return fmt.Errorf("load: --keep %d: want a number of requests", f.keep)
		}
		plan.Samples = f.keep
	} else if changed("keep") {
		return errors.New("load: --keep says how many --samples to keep; give a file for them")
	}
	if err := f.readFiles(env); err != nil {
		return err
	}
	return f.setURL(args)
}

// setURL takes the URL from the arguments, or else from the list.
func (f *loadFlags) setURL(args []string) error {
	if len(args) == 1 {
		f.plan.URL = args[0]
		return nil
	}
	for _, q := range f.plan.List {
		if len(args) == 0 && !strings.HasPrefix(q.URL, "/") {
			f.plan.URL = q.URL
			return nil
		}
	}
	return fmt.Errorf("load: want one URL, got %d arguments", len(args))
}
