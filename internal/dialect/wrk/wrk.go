// Package wrk emulates the load generator wrk: its command line and report, with tare's generator
// in between. It emulates wrk 4.2.0 and, with --requests, which only wrk 1.0.0 had, that version.
// Both follow wrk's sources. stats.go and rates.go compute the figures, units.go formats them, and
// footnotes.go explains where they mislead.
//
// A phantom is a latency sample that wrk adds for a request that it assumes was due but not sent.
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

// Command is a parsed command line of wrk.
type Command struct {
	url         string
	header      []string
	connections uint64
	threads     uint64
	duration    time.Duration
	hasDuration bool   // --duration is set
	requests    uint64 // of wrk 1.0's --requests
	timeout     time.Duration
	latency     bool // print the distribution
	version     bool // print the version first
	isV1        bool // emulate wrk 1.0
}

// perThread returns the number of connections of each thread. Like wrk, it drops the remainder.
func (c *Command) perThread() uint64 { return c.connections / c.threads }

// total returns the number of requests, the same for each thread.
func (c *Command) total() uint64 { return c.requests / c.threads * c.threads }

// requestTimeout exceeds all measured latencies. wrk never aborts a request; it detects timeouts by
// the measured latency.
const requestTimeout = hist.Longest

// Plan returns the plan of the run. Like wrk, it verifies no certificate, and never gives up.
func (c *Command) Plan(func()) load.Plan {
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

// Begin writes wrk's output before a run.
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
	elapsed := float64(runtime(r))
	fmt.Fprintf(&b, "  %d requests in %s, %sB read\n", r.Requests, microseconds(elapsed), binary(float64(r.Bytes)))
	if e := r.Errors; e.Connect+e.Read+e.Write+e.Timeout+late > 0 {
		fmt.Fprintf(&b, "  Socket errors: connect %d, read %d, write %d, timeout %d\n", e.Connect, e.Read, e.Write,
			e.Timeout+late)
	}
	if n := failures(r); n > 0 {
		fmt.Fprintf(&b, "  Non-2xx or 3xx responses: %d\n", n)
	}
	elapsed = max(elapsed, 1) / 1e6
	fmt.Fprintf(&b, "Requests/sec: %9.2f\n", float64(r.Requests)/elapsed)
	fmt.Fprintf(&b, "Transfer/sec: %10sB\n", binary(float64(r.Bytes)/elapsed))
	_, err := io.WriteString(stdout, b.String())
	return err
}

func writeRow(b *strings.Builder, name string, d *distribution, format func(float64) string) {
	mean := d.mean()
	stdev := d.stdev(mean)
	fmt.Fprintf(b, "    %-10s%s%s%s", name, column(format(mean), 8), column(format(stdev), 10),
		column(format(float64(d.max())), 9))
	fmt.Fprintf(b, "%8s%%\n", percent(d.within(mean, stdev)))
}

// runtime returns the measured time in microseconds.
func runtime(r *load.Result) int64 { return int64(math.Round(r.Seconds * 1e6)) }

func failures(r *load.Result) (n uint64) {
	for status, count := range r.Statuses {
		if status > 399 {
			n += count
		}
	}
	return n
}
