package wrk

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/dialect"
	"github.com/tarehq/tare/internal/dialect/getopt"
)

// Defaults of wrk.
const (
	defaultThreads     = 2
	defaultConnections = 10
	defaultDuration    = 10 * time.Second
	defaultTimeout     = 2 * time.Second
)

// Limits of a command line.
const (
	maxThreads     = 5000    // half of Go's limit of threads
	maxConnections = 1 << 24 // exceeds any system's limit of descriptors
	maxSeconds     = 365 * 24 * 60 * 60
)

const versionText = "tare's emulation of wrk: command lines of wrk 4.2.0, and of 1.0.0 with -r\n"

const usageText = `Usage: tare wrk [flags] URL

Run tare's load generator with wrk's flags and print wrk's report.

  -c, --connections N   keep N connections open (default 10)
  -d, --duration T      send requests for time T (default 10s)
  -t, --threads N       divide the connections among N threads (default 2)
  -H, --header "N: V"   send a header field "Name: value"; may be repeated
  -L, --latency         print the distribution of latency
  -T, --timeout T       count latencies above T as timeouts (default 2s)
  -r, --requests N      send N requests and print the report of wrk 1.0, which had this flag
  -v, --version         print the version
      --no-footnotes    do not explain misleading figures of wrk

N may have a unit (1k, 1M, 1G), and so may T (2s, 2m, 2h).
Unsupported: wrk's -s (Lua scripts), wrk2's -R, -U, --u_latency and -B.
`

// flags returns the flags of both versions, and wrk2's own flags as unsupported.
func (c *Command) flags() []getopt.Flag {
	return []getopt.Flag{
		getopt.Value('c', "connections", func(v string) error { return readNumber(&c.connections, v) }),
		getopt.Value('d', "duration", func(v string) error { c.hasDuration = true; return readTime(&c.duration, v) }),
		getopt.Value('t', "threads", func(v string) error { return readNumber(&c.threads, v) }),
		getopt.Value('s', "script", nil),
		getopt.Value('H', "header", c.setHeader),
		getopt.Switch('L', "latency", &c.latency, true),
		getopt.Value('T', "timeout", func(v string) error { return readTime(&c.timeout, v) }),
		getopt.Value('r', "requests", func(v string) error { c.isV1 = true; return readNumber(&c.requests, v) }),
		{Short: 'h', Long: "help", Set: dialect.Print(usageText, exitCode)},
		getopt.Switch('v', "version", &c.version, true),

		getopt.Value('R', "rate", nil),
		{Short: 'U', Long: "u_latency"},
		{Short: 'B', Long: "batch_latency"},
	}
}

const exitCode = 1 // wrk's exit code without a run, even for help

// Parse parses wrk's command line, without the program's name.
func Parse(args []string) (*Command, error) {
	c := &Command{
		threads: defaultThreads, connections: defaultConnections, duration: defaultDuration, timeout: defaultTimeout,
	}
	rest, err := dialect.Apply("wrk", args, c.flags(), getopt.Anywhere)
	if err != nil {
		return nil, err
	}
	return c, c.finish(rest)
}

func readNumber(to *uint64, text string) error {
	n, err := numberUnits().parse(text)
	*to = n
	return err
}

func readTime(to *time.Duration, text string) error {
	n, err := secondUnits().parse(text)
	if n > maxSeconds {
		return fmt.Errorf("%q: want at most one year", text)
	}
	*to = time.Duration(n) * time.Second
	return err
}

// setHeader adds a header field or replaces the one with the same name.
func (c *Command) setHeader(line string) error {
	name, _, ok := strings.Cut(line, ":")
	if !ok {
		return fmt.Errorf("%q: want \"Name: value\"", line)
	}
	c.header = slices.DeleteFunc(c.header, func(other string) bool { return strings.HasPrefix(other, name+":") })
	c.header = append(c.header, line)
	return nil
}

func (c *Command) finish(rest []string) error {
	switch {
	case len(rest) == 0 && c.version:
		return &dialect.Exit{Code: exitCode, Stdout: versionText + usageText}
	case len(rest) == 0:
		return errors.New("wrk: missing URL")
	case len(rest) > 1:
		return fmt.Errorf("wrk: unexpected argument %q: want one URL (scripts and their arguments are not supported)",
			rest[1])
	case c.isV1 && c.hasDuration:
		return errors.New("wrk: --requests (wrk 1.0) and --duration are mutually exclusive")
	case c.threads == 0 || c.isV1 && c.requests == 0 || c.duration == 0:
		return errors.New("wrk: want threads, requests and duration above 0")
	case c.threads > maxThreads || c.connections > maxConnections:
		return fmt.Errorf("wrk: want at most %d threads and %d connections", maxThreads, maxConnections)
	case c.connections < c.threads:
		return errors.New("number of connections must be >= threads")
	case c.isV1 && c.requests < c.threads:
		return errors.New("wrk: want at least as many requests as threads")
	}
	if c.isV1 {
		c.duration = 0
	}
	c.url = rest[0]
	if u, err := url.Parse(c.url); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("invalid URL: %s", c.url)
	}
	return nil
}
