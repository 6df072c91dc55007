package load

import (
	"cmp"
	"context"
	"fmt"
	"runtime"
	"time"
)

// What a Plan's zero fields mean.
const (
	DefaultConnections = 10
	DefaultDuration    = 10 * time.Second
	DefaultTimeout     = 5 * time.Second
)

// Plan says what to send, where, with how many connections and for how long. Only
// URL is required.
type Plan struct {
	// URL is what to load, and how to get there:
	//
	//	http://host:port/path      HTTP/1.1 over TCP; port 80 if there is none
	//	http+unix:///socket:/path  HTTP/1.1 over the unix socket /socket
	//	fcgi://host:port/path      FastCGI over TCP; port 9000 if there is none
	//	fcgi+unix:///socket:/path  FastCGI over a unix socket
	//
	// A socket's path ends at the first colon; one that belongs to it is written %3A.
	// Without a path of the request, and the colon, that is "/".
	URL    string
	Method string   // GET if empty
	Header []string // "Name: value" each
	Body   string

	// Params are parameters of a FastCGI request, "NAME=value" each. They are added to
	// those that nginx's file fastcgi_params has, or replace them: often DOCUMENT_ROOT,
	// or SCRIPT_FILENAME, which begins with it. SERVER_ADDR and SERVER_PORT are where the
	// application listens, REMOTE_ADDR is on the same machine.
	Params []string

	Connections int           // DefaultConnections if 0
	Threads     int           // as many as processors, at most Connections, if 0
	Warmup      time.Duration // before measuring
	Duration    time.Duration // of measuring; DefaultDuration if 0
	Timeout     time.Duration // for connecting, and for a response; DefaultTimeout if 0

	// Pace says when requests are due, over all connections: an open loop. The zero value is
	// a closed loop, in which each connection sends the next when the last was answered.
	Pace Pace

	// Spare is how many more connections are opened after each of Connections. They
	// send nothing.
	Spare int

	// CPUs are the processors that threads are bound to, in turn. Empty leaves
	// that to the system.
	CPUs []int

	// Trace is told how the run goes. It may be nil.
	Trace *Trace
}

// Trace is a set of hooks, each of which may be nil. They are called one at a time, by
// the goroutine that called Run.
type Trace struct {
	Connected func()         // all connections were made, or could not be
	Started   func()         // just before measuring
	Progress  func(Progress) // about ten times a second
	Ended     func()         // just after measuring, while connections are still open
}

// Progress is a glance at a run.
type Progress struct {
	Measuring bool
	Elapsed   time.Duration // of warm-up or of measuring
	Requests  uint64        // measured so far
	Errors    uint64
}

// job is a Plan made ready: nothing in it is looked up or worked out again.
type job struct {
	Plan
	protocol protocol
	address  address
	payload  []byte // the request, as it is sent
}

// PlanError is what Run returns when the plan cannot be carried out as it is.
type PlanError struct{ Reason string }

func (e *PlanError) Error() string { return "load: " + e.Reason }

func badPlan(format string, args ...any) error { return &PlanError{fmt.Sprintf(format, args...)} }

// withDefaults returns the plan with its zero fields filled in.
func (p Plan) withDefaults() Plan {
	p.Method = cmp.Or(p.Method, "GET")
	p.Connections = cmp.Or(p.Connections, DefaultConnections)
	p.Threads = cmp.Or(p.Threads, min(runtime.NumCPU(), p.Connections))
	p.Duration = cmp.Or(p.Duration, DefaultDuration)
	p.Timeout = cmp.Or(p.Timeout, DefaultTimeout)
	p.Trace = cmp.Or(p.Trace, &Trace{})
	return p
}

// check says what is wrong with a plan's numbers.
func (p *Plan) check() error {
	if p.Connections < 1 || p.Threads < 1 || p.Threads > p.Connections {
		return badPlan("%d threads for %d connections: need at least one of each, and no more threads than connections", p.Threads, p.Connections)
	}
	if p.Duration < 0 || p.Warmup < 0 || p.Timeout < 0 {
		return badPlan("a time is negative")
	}
	if p.Spare < 0 {
		return badPlan("%d spare connections: want a number from 0", p.Spare)
	}
	if err := p.Pace.check(); err != nil {
		return err
	}
	for _, cpu := range p.CPUs {
		if cpu < 0 {
			return badPlan("processor %d: want numbers from 0", cpu)
		}
	}
	return nil
}

func (p Plan) prepare(ctx context.Context) (*job, error) {
	j := &job{Plan: p.withDefaults()}
	if err := j.check(); err != nil {
		return nil, err
	}
	to, err := parseURL(j.URL)
	if err != nil {
		return nil, err
	}
	q, err := newRequest(&j.Plan, to)
	if err != nil {
		return nil, err
	}
	if j.address, err = resolve(ctx, &to, j.Timeout); err != nil {
		return nil, err
	}
	j.protocol, j.payload = to.protocol, to.protocol.render(q, j.address)
	return j, nil
}
