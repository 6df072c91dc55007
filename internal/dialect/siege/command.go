// Package siege emulates the load generator siege: its command line and report, with tare's
// generator in between. The report has the form of siege 4.0.7; releases from 4.1.7 on print
// milliseconds.
//
// Defaults are those of the configuration file that siege installs, with two exceptions. It prints
// the summary that people publish instead of JSON, and no line for each transaction. It reads a
// user's configuration only if -R names one.
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
	defaultLimit   = 255 // limit of users
	defaultTimeout = 30 * time.Second
	endless        = 10301062 // siege's number of repetitions if none is set
	maxReps        = endless
	maxSeconds     = 10_000_000 // limits a run's length
	maxFailures    = 1024       // number of failures after which siege exits

	userAgent      = "Mozilla/5.0 (pc-x86_64-linux-gnu) Siege/4.0.7"
	acceptEncoding = "gzip, deflate"
	contentType    = "application/x-www-form-urlencoded"
	defaultLog     = "/var/log/siege.log"
)

// Command is a parsed command line of siege.
type Command struct {
	settings
	urls           []target // all of one server
	requestedUsers int      // number of users before the limit; 0 if within it
	notice         string   // message about conflicting flags
}

type settings struct {
	url, file, rcFile string
	users, limit      int
	reps              int // per user; 0 is endless
	once              bool
	time              time.Duration // limit of the run's length; 0 means none
	delay             time.Duration // longest pause after each response
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

// Parse parses siege's command line, without the program's name.
func Parse(args []string) (*Command, error) {
	defaults := settings{
		users: defaultUsers, limit: defaultLimit, timeout: defaultTimeout,
		agent: userAgent, encoding: acceptEncoding, contentType: contentType,
		parser: true, follow: true, logFile: defaultLog,
	}
	c := &Command{settings: defaults}
	rest, err := dialect.Apply("siege", args, c.flags(), getopt.Anywhere)
	if file := c.rcFile; err == nil && file != "" { // flags override the file, so they are set again
		c.settings = defaults
		if err = c.readRC(file); err == nil {
			rest, err = dialect.Apply("siege", args, c.flags(), getopt.Anywhere)
		}
	}
	if err != nil {
		return nil, err
	}
	if len(rest) > 0 {
		c.url = rest[len(rest)-1] // siege uses the last one
	}
	c.resolveConflicts()
	return c, c.readURLs()
}

// resolveConflicts applies siege's precedence of settings.
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

func (c *Command) requests() uint64 {
	switch {
	case c.once:
		return uint64(c.users) * uint64(len(c.urls))
	case c.reps > 0:
		return uint64(c.users) * uint64(c.reps)
	}
	return uint64(c.users) * endless
}

// setTime parses a number with a unit, by default minutes: 20s, 1M, 1h.
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

// setDelay parses a number of seconds.
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

func (s *settings) addHeader(line string) error {
	if !strings.Contains(line, ":") {
		return fmt.Errorf("%q: want \"Name: value\"", line)
	}
	s.header = append(s.header, line)
	return nil
}

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
			return fmt.Errorf("siege: read the file of URLs: %w", readErr)
		}
		if c.urls, err = c.parseFile(c.file, string(text)); err != nil {
			return err
		}
	}
	return nil
}
