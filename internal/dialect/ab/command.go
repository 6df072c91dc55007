// Package ab emulates ApacheBench: its command line and report, with tare's generator in between.
// It computes figures as ab 2.3 of Apache 2.4 does, including rounding and quirks. Footnotes
// explain figures that do not mean what their names suggest.
package ab

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/dialect"
	"github.com/tarehq/tare/internal/dialect/getopt"
)

const (
	timedRequests = 50000 // limit of requests of a run with -t
	// maxRequests limits the memory for the times of all requests, which ab keeps, too.
	maxRequests    = 100_000_000
	maxConcurrency = 20000 // ab's limit
	maxSeconds     = 10_000_000
	defaultTimeout = 30 * time.Second
	// Up to maxQuietRequests, ab prints no progress. Above, it prints a line for each tenth of the
	// requests, but for no fewer than minProgressStep.
	maxQuietRequests, minProgressStep = 150, 100
)

// ExitUsage is ab's exit code after an invalid command line: EINVAL.
const ExitUsage = 22

// Command is a parsed command line of ab.
type Command struct {
	server      dialect.Server
	path        string
	method      string
	body        string
	sendsBody   bool
	contentType string
	cookie      string
	credentials []string // header lines of -A and -P
	header      []string // header lines of -H

	requests, concurrency int
	limit                 time.Duration // limit of the run's length; 0 means none
	timeout               time.Duration
	keepAlive             bool
	source                netip.Addr

	anyLength, continueOnError            bool // -l, -r
	quiet, noPercentiles, noDeviation     bool
	html                                  bool
	tableAttributes, rowAttributes, cells string // attributes for -w
	csvFile, plotFile                     string

	tls     tls.Config
	session session

	progressStep  int // requests per line of progress; 0 disables progress
	progressLines int // lines of progress written
	started       time.Time
	stderr        io.Writer // receives progress; set by Begin
}

// Parse parses ab's command line, without the program's name.
func Parse(args []string) (*Command, error) {
	c := &Command{requests: 1, concurrency: 1, timeout: defaultTimeout, contentType: "text/plain",
		cells: "bgcolor=white"}
	rest, err := dialect.Apply("ab", args, c.flags(), getopt.First)
	if err != nil {
		return nil, err
	}
	if len(rest) != 1 {
		return nil, fmt.Errorf("ab: want one URL after all flags, got %d: %q", len(rest), rest)
	}
	if err := c.setURL(rest[0]); err != nil {
		return nil, fmt.Errorf("ab: URL %q: %w", rest[0], err)
	}
	if c.concurrency > c.requests {
		return nil, fmt.Errorf("ab: concurrency %d exceeds the number of requests, %d (raise -n; its default is 1)",
			c.concurrency, c.requests)
	}
	if !c.quiet && c.requests > maxQuietRequests {
		c.progressStep = max(c.requests/10, minProgressStep)
	}
	c.method = cmp.Or(c.method, "GET")
	return c, nil
}

// setURL parses [http[s]://]host[:port]/path.
func (c *Command) setURL(text string) (err error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || scheme != "http" && scheme != "https" {
		scheme, rest = "http", text
	}
	authority, path, ok := strings.Cut(rest, "/")
	if !ok {
		return errors.New("want a path after the host, at least /")
	}
	c.path = "/" + path
	c.server, err = dialect.ParseServer(scheme, authority)
	return err
}
