// Package ab is ApacheBench's command line and report, over our generator. What it prints is
// computed as ab 2.3 of Apache 2.4 does, rounding and quirks included; where a number says
// something else than its name, there is a footnote.
package ab

import (
	"cmp"
	"crypto/tls"
	"fmt"
	"io"
	"net/netip"
	"time"

	"github.com/tarehq/tare/internal/dialect"
	"github.com/tarehq/tare/internal/dialect/getopt"
)

const (
	// timedRequests is how many requests end a run with -t, if nothing else does.
	timedRequests = 50000
	// maxRequests bounds the memory for the times of all of them, which ab has, too.
	maxRequests    = 100_000_000
	maxConcurrency = 20000 // ab's
	maxSeconds     = 10_000_000
	defaultTimeout = 30 * time.Second
	exitUsage      = 22 // EINVAL
	// quietRequests is up to how many ab says nothing while they are under way. Of more it
	// tells each tenth, but no fewer than leastBeat at a time.
	maxQuietRequests, minProgressStep = 150, 100
)

// Command is one command line of ab.
type Command struct {
	target      targetURL
	method      string
	body        string
	sendsBody   bool
	contentType string
	cookie      string
	credentials []string // header lines
	header      []string // of -H

	requests, concurrency int
	limit                 time.Duration // of the whole run; none if 0
	timeout               time.Duration
	keepAlive             bool
	source                netip.Addr

	anyLength, continueOnError            bool // -l, -r
	quiet, noPercentiles, noDeviation     bool
	html                                  bool
	tableAttributes, rowAttributes, cells string // of HTML
	csvFile, plotFile                     string

	tls     tls.Config
	session session

	progressStep  int // how many requests make a line of progress; none if 0
	progressLines int // how many of those lines were written
	started       time.Time
	stderr        io.Writer // for progress; set by Begin
}

// Parse reads ab's command line, without the program's name. Its error is a
// *dialect.UsageError.
func Parse(args []string) (*Command, error) {
	c, err := parse(args)
	if err != nil {
		return nil, dialect.Usage("ab", err, exitUsage)
	}
	return c, nil
}

func parse(args []string) (*Command, error) {
	c := &Command{requests: 1, concurrency: 1, timeout: defaultTimeout, contentType: "text/plain", cells: "bgcolor=white"}
	rest, err := dialect.Apply("ab", c, args, flags(), getopt.First)
	if err != nil {
		return nil, err
	}
	if len(rest) != 1 {
		return nil, fmt.Errorf("ab: want one URL, after all flags, got %d: %q", len(rest), rest)
	}
	if c.target, err = parseURL(rest[0]); err != nil {
		return nil, fmt.Errorf("ab: URL %q: %w", rest[0], err)
	}
	if c.concurrency > c.requests {
		return nil, fmt.Errorf("ab: concurrency level %d is greater than the number of requests, %d; raise -n, which is 1 unless it is given", c.concurrency, c.requests)
	}
	if !c.quiet && c.requests > maxQuietRequests {
		c.progressStep = max(c.requests/10, minProgressStep)
	}
	c.method = cmp.Or(c.method, "GET")
	return c, nil
}
