// Package events carries out the cases of experiments in which something happens to servers while
// clients send requests: a deploy, a crash, a crowd of slow clients. It counts what each client
// received, second by second, in place of what a request costs.
//
// A Plan is a part of an experiment.yaml whose kind is events. Each of its cases starts
// a contender, waits for a first response, and lets the groups of clients send requests at a fixed
// rate for a fixed time. Meanwhile the steps of the case's plan happen. In place of groups, clients
// may keep streams open; see Streams. Package sample has the result and its glossary, and package
// report shows it.
package events

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/internal/lab/yamlfile"
)

// Plan is what an experiment.yaml of this kind has besides its head.
type Plan struct {
	Length  yamlfile.Duration `yaml:"length"`  // of each case
	Timeout yamlfile.Duration `yaml:"timeout"` // of a request
	Groups  []sample.Group    `yaml:"clients"`
	Files   int               `yaml:"files"` // limit of each process's open files; 0 is the lab's own
	Crowd   Crowd             `yaml:"crowd"` // of the steps that gather one
	Streams Streams           `yaml:"streams"`
	Cases   []Case            `yaml:"cases"`
}

// Case is a server, or a method of replacing it, to which the steps of a plan happen.
type Case struct {
	Name      string            `yaml:"name"`
	Title     string            `yaml:"title"`
	About     string            `yaml:"about"`
	Contender string            `yaml:"contender"`
	Set       map[string]string `yaml:"set"`       // {{.Setting "name"}} in the front's configuration
	Replicas  int               `yaml:"replicas"`  // processes of the application; 0 is one
	Activated bool              `yaml:"activated"` // the lab keeps the application's socket open, as systemd does
	Plan      []Step            `yaml:"plan"`

	// The others are set if clients keep streams open.

	kind    *StreamKind
	clients int
	copies  int               // of the contender, which share the clients; 0 is one
	length  yamlfile.Duration // 0 is that of the experiment
}

// Step is an event.
type Step struct {
	At yamlfile.Duration `yaml:"at"`
	Do string            `yaml:"do"`   // an action
	Of string            `yaml:"of"`   // the role to which it happens; "" is the application
	As string            `yaml:"text"` // how the report names it; "" is Do and Of
}

// Actions.
const (
	Restart = "restart" // SIGTERM, and a new process when the old one has ended
	Start   = "start"   // a new process in place of one that has ended
	Gather  = "gather"  // the crowd opens its connections
	Leave   = "leave"   // the crowd closes them
	Upgrade = "upgrade" // SIGUSR2
	Reload  = "reload"  // the front reads its configuration again
	Stall   = "stall"   // one more client opens a stream and does not read it
)

func signals() map[string]syscall.Signal {
	return map[string]syscall.Signal{
		"kill": syscall.SIGKILL, "terminate": syscall.SIGTERM, "freeze": syscall.SIGSTOP, "thaw": syscall.SIGCONT,
		Upgrade: syscall.SIGUSR2, "quit": syscall.SIGQUIT,
	}
}

// Crowd describes slow clients. Each sends the beginning of a request at once; then it sends, or
// reads, a few bytes at a time. The n-th of N uploads begins with n/N of First bytes.
type Crowd struct {
	Behavior    string            `yaml:"behavior"`
	Connections int               `yaml:"connections"`
	Over        yamlfile.Duration `yaml:"over"`  // the time in which they are opened
	Every       yamlfile.Duration `yaml:"every"` // between two writes or reads of one
	Bytes       int               `yaml:"bytes"` // of each write or read
	First       int               `yaml:"first"` // of a body, sent at once by the last client
	Again       bool              `yaml:"again"` // a client whose connection was ended opens another one
}

// Behaviors of a crowd.
const (
	Headers = "headers" // requests whose header section does not end
	Uploads = "uploads" // requests whose body arrives slowly
	Reads   = "reads"   // responses that are read slowly
)

// Limits of an experiment's values. Higher ones are typing errors, or more than one process can do.
const (
	maxLength      = 2 * time.Minute
	maxRate        = 2000
	maxConnections = 15_000
	maxReplicas    = 16
	maxFiles       = 1 << 20
)

// Check returns a *yamlfile.Error for the first invalid value.
func (e *Plan) Check(f *yamlfile.File) error {
	switch {
	case e.Length <= 0 || time.Duration(e.Length) > maxLength:
		return f.Fault("$.length", "length: want a time up to %v", maxLength)
	case e.Timeout <= 0 || e.Timeout > e.Length:
		return f.Fault("$.timeout", "timeout: want a time up to length")
	case len(e.Groups) == 0 == (len(e.Streams.Kinds) == 0) || len(e.Cases) == 0:
		return f.Fault("$.clients", "want at least one of clients or of streams, and one of cases")
	case e.Files < 0 || e.Files > maxFiles:
		return f.Fault("$.files", "files: want 0 to %d, got %d", maxFiles, e.Files)
	}
	for i, g := range e.Groups {
		if g.Name == "" || g.Method != "GET" && g.Method != "POST" || !(g.Rate > 0 && g.Rate <= maxRate) {
			return f.Fault(fmt.Sprintf("$.clients[%d]", i), "clients: want a name, method GET or POST, and a rate up to %d", maxRate)
		}
	}
	for i := range e.Cases {
		if key, what := e.caseFault(i); what != "" {
			return f.Fault(fmt.Sprintf("$.cases[%d]%s", i, key), "cases: %s", what)
		}
	}
	gathers := func(c Case) bool {
		return slices.ContainsFunc(c.Plan, func(s Step) bool { return s.Do == Gather })
	}
	if slices.ContainsFunc(e.Cases, gathers) {
		if what := e.Crowd.fault(); what != "" {
			return f.Fault("$.crowd", "crowd: %s", what)
		}
	}
	if len(e.Streams.Kinds) > 0 {
		if what := e.Streams.fault(); what != "" {
			return f.Fault("$.streams", "streams: %s", what)
		}
	}
	return nil
}

// caseFault returns the key and the description of a case's first invalid value.
func (e *Plan) caseFault(i int) (key, what string) {
	c := &e.Cases[i]
	switch {
	case c.Name == "" || c.Title == "" || c.About == "" || c.Contender == "":
		return "", "want name, title, about and contender"
	case slices.ContainsFunc(e.Cases[:i], func(o Case) bool { return o.Name == c.Name }):
		return ".name", fmt.Sprintf("duplicate %q", c.Name)
	case c.Replicas < 0 || c.Replicas > maxReplicas:
		return ".replicas", fmt.Sprintf("replicas: want 0 to %d, got %d", maxReplicas, c.Replicas)
	}
	all := append(slices.Sorted(maps.Keys(signals())), Restart, Start, Gather, Leave, Reload, Stall)
	last := yamlfile.Duration(0)
	for j, s := range c.Plan {
		if !slices.Contains(all, s.Do) {
			return fmt.Sprintf(".plan[%d]", j), fmt.Sprintf("do %q: want one of %s", s.Do, strings.Join(all, ", "))
		}
		if s.At < last || s.At > e.Length {
			return fmt.Sprintf(".plan[%d].at", j), "want ascending times up to length"
		}
		last = s.At
	}
	return "", ""
}

func (s *Step) text() string {
	return cmp.Or(s.As, strings.TrimSpace(s.Do+" "+s.Of))
}

func (c *Crowd) fault() string {
	switch {
	case !slices.Contains([]string{Headers, Uploads, Reads}, c.Behavior):
		return fmt.Sprintf("behavior %q: want %s, %s or %s", c.Behavior, Headers, Uploads, Reads)
	case c.Connections < 1 || c.Connections > maxConnections:
		return fmt.Sprintf("connections: want 1 to %d, got %d", maxConnections, c.Connections)
	case c.Every <= 0 || c.Bytes < 1:
		return "want every, a time, and bytes, above 0"
	}
	return ""
}
