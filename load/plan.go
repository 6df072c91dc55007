package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"net/url"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/wire/http1"
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
	URL    string   // http://host:port/path; port 80 if there is none
	Method string   // GET if empty
	Header []string // "Name: value" each
	Body   string

	Connections int           // DefaultConnections if 0
	Threads     int           // as many as processors, at most Connections, if 0
	Warmup      time.Duration // before measuring
	Duration    time.Duration // of measuring; DefaultDuration if 0
	Timeout     time.Duration // for connecting, and for a response; DefaultTimeout if 0

	// Rate is how many requests are due each second, over all connections: an open
	// loop. 0 is a closed loop.
	Rate float64

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
	address netip.AddrPort
	payload []byte // the request, as it is sent
	isHead  bool   // responses have no body, whatever they say
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
	if !(p.Rate >= 0) || math.IsInf(p.Rate, 1) || p.Spare < 0 {
		return badPlan("%v requests a second, %d spare connections: want numbers from 0", p.Rate, p.Spare)
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
	j.isHead = j.Method == "HEAD"
	u, err := url.Parse(j.URL)
	if err != nil {
		if bad, ok := errors.AsType[*url.Error](err); ok {
			err = bad.Err
		}
		return nil, badPlan("%q: want http://host:port/path: %v", j.URL, err)
	}
	switch {
	case u.Scheme != "http" || u.Hostname() == "" || !http1.ValidHost([]byte(u.Host)):
		return nil, badPlan("%q: want http://host:port/path", j.URL)
	case u.User != nil:
		return nil, badPlan("%q: a name and password in the URL are not sent: use an Authorization header", u.Redacted())
	}
	if j.payload, err = j.render(u); err != nil {
		return nil, err
	}
	j.address, err = resolve(ctx, u, j.Timeout)
	return j, err
}

// render makes the bytes of the request.
func (j *job) render(u *url.URL) ([]byte, error) {
	target := u.RequestURI()
	if !http1.ValidToken(j.Method) || !http1.ValidTarget(target) {
		return nil, badPlan("%q %q is no request line", j.Method, target)
	}
	head := http1.AppendRequestLine(nil, j.Method, target)
	given := make(map[string]bool)
	var fields []byte
	for _, line := range j.Header {
		name, value, ok := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if !ok || !http1.ValidToken(name) || !http1.ValidValue(value) {
			return nil, badPlan("header %q: want \"Name: value\"", line)
		}
		given[strings.ToLower(name)] = true
		fields = http1.AppendField(fields, name, value)
	}
	if !given["host"] {
		head = http1.AppendField(head, "Host", u.Host)
	}
	head = append(head, fields...)
	// RFC 9110, 8.6: methods that usually have a body say so when they have none.
	tells := j.Body != "" || slices.Contains([]string{"POST", "PUT", "PATCH"}, j.Method)
	if tells && !given["content-length"] && !given["transfer-encoding"] {
		head = http1.AppendField(head, "Content-Length", strconv.Itoa(len(j.Body)))
	}
	return append(http1.AppendHeadEnd(head), j.Body...), nil
}

// resolve finds the address to connect to.
func resolve(ctx context.Context, u *url.URL, timeout time.Duration) (netip.AddrPort, error) {
	port, err := strconv.ParseUint(cmp.Or(u.Port(), "80"), 10, 16)
	if err != nil {
		return netip.AddrPort{}, badPlan("port %q: want a number up to 65535", u.Port())
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil {
		return netip.AddrPortFrom(addr, uint16(port)), nil
	}
	addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("load: %w", err)
	}
	var all []netip.AddrPort
	for _, addr := range addrs {
		all = append(all, netip.AddrPortFrom(addr.Unmap(), uint16(port)))
	}
	return firstToAnswer(ctx, all, timeout), nil
}

// firstToAnswer returns the first address that takes a connection, or else the first
// of all: a name such as localhost often has two, and a server that listens on one.
func firstToAnswer(ctx context.Context, all []netip.AddrPort, timeout time.Duration) netip.AddrPort {
	if len(all) == 1 {
		return all[0]
	}
	dialer := net.Dialer{Timeout: timeout}
	for _, to := range all {
		if c, err := dialer.DialContext(ctx, "tcp", to.String()); err == nil {
			_ = c.Close()
			return to
		}
	}
	return all[0]
}
