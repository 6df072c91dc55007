// Package siege is siege's command line and report, over our generator. What it prints is
// shaped as by siege 4.0.7; releases from 4.1.7 on print milliseconds. The defaults are those of
// the configuration file that siege installs, with two exceptions, for the report to be the one
// that people publish: it is the summary, not JSON, and not every transaction has a line. A
// user's own configuration is read only if -R names it.
package siege

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/dialect"
	"github.com/tarehq/tare/internal/dialect/getopt"
)

const (
	defaultUsers   = 25
	defaultLimit   = 255 // of users
	defaultTimeout = 30 * time.Second
	// endless is siege's number of repetitions where none is given.
	endless = 10301062
	maxReps = endless
	// maxSeconds bounds a run's time.
	maxSeconds = 10_000_000
	// maxFailures is after how many failures siege gives up.
	maxFailures = 1024

	userAgent      = "Mozilla/5.0 (pc-x86_64-linux-gnu) Siege/4.0.7"
	acceptEncoding = "gzip, deflate"
	contentType    = "application/x-www-form-urlencoded"
	defaultLog     = "/var/log/siege.log"
)

// Command is one command line of siege.
type Command struct {
	settings
	urls           []target
	server         origin // of all the URLs
	requestedUsers int    // how many users were asked for, if more than the limit
	notice         string // about flags that exclude each other
}

// settings are what flags and the file of -R set.
type settings struct {
	url, file         string
	users, limit      int
	reps              int // each user's; 0 is endless
	once              bool
	time              time.Duration // of the run; none if 0
	delay             time.Duration // at most, after each response
	timeout           time.Duration
	random            bool // -i
	benchmark         bool
	keepAlive, http10 bool
	header            []string
	agent, encoding   string
	contentType       string
	parser, follow    bool
	verbose, quiet    bool
	json              bool
	logging           bool
	logFile, mark     string
}

// Parse reads siege's command line, without the program's name. Its error is a
// *dialect.UsageError.
func Parse(args []string) (*Command, error) {
	c, err := parse(args)
	if err != nil {
		return nil, dialect.Usage("siege", err, 1)
	}
	return c, nil
}

func parse(args []string) (*Command, error) {
	var fromRC rcFile
	if _, err := dialect.Apply("siege", &fromRC, args, rcOnly(), getopt.Anywhere); err != nil {
		return nil, err
	}
	c := &Command{settings: settings{
		users: defaultUsers, limit: defaultLimit, timeout: defaultTimeout,
		agent: userAgent, encoding: acceptEncoding, contentType: contentType,
		parser: true, follow: true, logFile: defaultLog,
	}}
	if fromRC.name != "" {
		if err := c.readRC(fromRC.name); err != nil {
			return nil, err
		}
	}
	rest, err := dialect.Apply("siege", c, args, flags(), getopt.Anywhere)
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		c.url = rest[len(rest)-1] // as siege has it
	}
	c.resolveConflicts()
	return c, c.readURLs()
}

// settle lets one setting overrule another.
func (c *Command) resolveConflicts() {
	if c.benchmark {
		c.delay = 0
	}
	if c.time > 0 && c.reps > 0 {
		c.notice = fmt.Sprintf("[error] CONFIG conflict: selected time and repetition based testing\n"+
			"defaulting to time-based testing: %d seconds\n", int(c.time.Seconds()))
		c.reps = 0
	}
	c.users = max(c.users, 1)
	if c.users > c.limit {
		c.requestedUsers, c.users = c.users, c.limit
	}
	c.quiet = c.quiet || c.json
	c.verbose = c.verbose && !c.quiet
}

// requests is how many the run has.
func (c *Command) requests() uint64 {
	switch {
	case c.once:
		return uint64(c.users) * uint64(len(c.urls))
	case c.reps > 0:
		return uint64(c.users) * uint64(c.reps)
	}
	return uint64(c.users) * endless
}

// setTime reads a number and a unit, which is minutes if there is none: 20s, 1M, 1h.
func (s *settings) setTime(value string) error {
	digits := strings.TrimRight(value, "smhSMH")
	n, err := dialect.Number(digits, 1, maxSeconds)
	unit := time.Minute
	switch strings.ToLower(value[len(digits):]) {
	case "s":
		unit = time.Second
	case "m", "":
	case "h":
		unit = time.Hour
	default:
		err = errors.New("unit")
	}
	if err != nil {
		return fmt.Errorf("%q: want a number and S, M or H, such as 20S", value)
	}
	s.time = min(time.Duration(n)*unit, maxSeconds*time.Second)
	return nil
}

func (s *settings) setReps(value string) (err error) {
	if s.once = value == "once"; s.once {
		s.reps = 0
		return nil
	}
	s.reps, err = dialect.Number(value, 1, maxReps)
	return err
}

// setDelay reads seconds.
func (s *settings) setDelay(value string) error {
	seconds, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
	if err != nil || seconds < 0 || seconds > maxSeconds {
		return fmt.Errorf("%q: want a number of seconds", value)
	}
	s.delay = time.Duration(seconds * float64(time.Second))
	return nil
}

func (s *settings) setUsers(value string) (err error) {
	s.users, err = dialect.Number(value, 0, 1<<20)
	return err
}

// addHeader adds the line of a header field to those of each request.
func (s *settings) addHeader(line string) error {
	if !strings.Contains(line, ":") {
		return fmt.Errorf("%q: want \"Name: value\"", line)
	}
	s.header = append(s.header, line)
	return nil
}

// readURLs finds what to request: the URL, or those of a file.
func (c *Command) readURLs() (err error) {
	if c.url != "" {
		var t target
		if t, err = c.parseTarget(c.url); err != nil {
			return fmt.Errorf("siege: URL %q: %w", c.url, err)
		}
		c.urls = []target{t}
	} else {
		if c.file == "" {
			return errors.New("siege: want a URL, or a file of URLs with -f")
		}
		text, readErr := os.ReadFile(c.file)
		if readErr != nil {
			return fmt.Errorf("siege: cannot read the file of URLs: %w", readErr)
		}
		if c.urls, err = c.parseFile(c.file, string(text)); err != nil {
			return err
		}
	}
	c.server = c.urls[0].origin
	return nil
}
