// Package wrk is the command line and the report of wrk, the load generator, with our
// generator between the two. It is wrk 4.2.0's, and with --requests, which that has no more,
// wrk 1.0.0's. Both are as in their sources: what figures mean is in stats.go and rates.go, how
// they are written in units.go, where they mislead in footnotes.go.
package wrk

import (
	"crypto/tls"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/hist"
)

// Command is a command line of wrk's that was understood.
type Command struct {
	url         string
	header      []string
	connections uint64
	threads     uint64
	duration    time.Duration
	hasDuration bool   // a duration was given
	requests    uint64 // of an old command line
	timeout     time.Duration
	latency     bool // print the distribution
	version     bool // print the version first
	isV1        bool // it is wrk 1.0's
}

// perThread is how many connections each thread has. The remainder is never opened.
func (c *Command) perThread() uint64 { return c.connections / c.threads }

// total is how many requests are made: as many by each thread.
func (c *Command) total() uint64 { return c.requests / c.threads * c.threads }

// patience is what is longer than wrk is ever measured by: wrk itself never gives a request up,
// and one that took longer than its timeout is told from the time it took.
const requestTimeout = hist.Longest

// Plan returns what to run. A certificate may be anybody's, as for wrk.
func (c *Command) Plan() load.Plan {
	return load.Plan{
		URL:         c.url,
		Header:      c.header,
		Connections: int(c.perThread() * c.threads),
		Threads:     int(c.threads),
		Duration:    c.duration,
		Requests:    c.total(),
		Timeout:     max(requestTimeout, c.duration),
		TLS:         &tls.Config{InsecureSkipVerify: true},
	}
}

// Begin writes what wrk does before a run.
func (c *Command) Begin(stdout, _ io.Writer) {
	if c.version {
		fmt.Fprint(stdout, versionText)
	}
	if c.isV1 {
		fmt.Fprintf(stdout, "Making %d requests to %s\n", c.requests, c.url)
	} else {
		fmt.Fprintf(stdout, "Running %s test @ %s\n", seconds(c.duration), c.url)
	}
	fmt.Fprintf(stdout, "  %d threads and %d connections\n", c.threads, c.connections)
}

// Report writes wrk's report.
func (c *Command) Report(stdout, _ io.Writer, r *load.Result) error {
	var b strings.Builder
	latency, late := c.latencies(r), c.countTimeouts(r.Service)
	fmt.Fprintf(&b, "  Thread Stats%6s%11s%8s%12s\n", "Avg", "Stdev", "Max", "+/- Stdev")
	writeRow(&b, "Latency", &latency, microseconds)
	writeRow(&b, "Req/Sec", c.rates(r), metric)
	if c.latency {
		fmt.Fprint(&b, "  Latency Distribution\n")
		for _, p := range []float64{50, 75, 90, 99} {
			fmt.Fprintf(&b, "%7.0f%%%s\n", p, column(microseconds(float64(latency.percentile(p))), 10))
		}
	}
	took := float64(runtime(r))
	fmt.Fprintf(&b, "  %d requests in %s, %sB read\n", r.Requests, microseconds(took), binary(float64(r.Bytes)))
	if e := r.Errors; e.Connect+e.Read+e.Write+e.Timeout+late > 0 {
		fmt.Fprintf(&b, "  Socket errors: connect %d, read %d, write %d, timeout %d\n", e.Connect, e.Read, e.Write, e.Timeout+late)
	}
	if n := failures(r); n > 0 {
		fmt.Fprintf(&b, "  Non-2xx or 3xx responses: %d\n", n)
	}
	took = max(took, 1) / 1e6
	fmt.Fprintf(&b, "Requests/sec: %9.2f\n", float64(r.Requests)/took)
	fmt.Fprintf(&b, "Transfer/sec: %10sB\n", binary(float64(r.Bytes)/took))
	_, err := io.WriteString(stdout, b.String())
	return err
}

// writeRow writes a row of Thread Stats.
func writeRow(b *strings.Builder, name string, d *distribution, format func(float64) string) {
	mean := d.mean()
	stdev := d.stdev(mean)
	fmt.Fprintf(b, "    %-10s%s%s%s", name, column(format(mean), 8), column(format(stdev), 10), column(format(float64(d.max())), 9))
	fmt.Fprintf(b, "%8s%%\n", percent(d.within(mean, stdev)))
}

// runtime is how long was measured, in microseconds.
func runtime(r *load.Result) int64 { return int64(math.Round(r.Seconds * 1e6)) }

// failures are responses of status 400 and above.
func failures(r *load.Result) (n uint64) {
	for status, count := range r.Statuses {
		if status > 399 {
			n += count
		}
	}
	return n
}
