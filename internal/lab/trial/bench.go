package trial

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"text/template"
	"time"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/equal"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/load"
)

// Bench runs trials, one at a time.
type Bench struct {
	Stage   *contender.Stage
	CPUs    []int // that this process may use
	Request equal.Request
	Conf    *template.Template // the experiment's nginx.conf
	Warmup  time.Duration
	Measure time.Duration

	Generator Generator // produces the load; nil is this process

	// Template is the generator's path, with expressions of package load; "" is the request's path.
	Template string

	Statuses []int // expected ones; none means all below 400
	// Bodies are the expected bodies by the path of a Scenario; one that is missing or nil is any.
	Bodies map[string][]byte

	// Shapes are parts of the load that a Condition does not hold, by the name of its scenario.
	Shapes    map[string]Shape
	Env       []string // more variables for all applications
	restBound float64  // replaces sleepBound in tests
}

// requestTimeout is the time after which the generator counts a missing response as an error. The
// slowest contenders need seconds for 5000 connections.
const requestTimeout = 10 * time.Second

// Setting returns the setting of contenders under a condition.
func (b *Bench) Setting(c sample.Condition) contender.Setting {
	servers, _ := Layout(b.CPUs, c.Cores)
	cores := cmp.Or(c.Cores, len(b.CPUs))
	return contender.Setting{
		Cores: cmp.Or(c.Procs, cores), Workers: cores, CPUs: servers, Host: b.Request.Host,
		Conf: b.Conf, Env: b.Env,
	}
}

// plan returns the generator's plan, with requests like those of equal.Fetch.
func (b *Bench) plan(at contender.Place, c sample.Condition, cpus []int) load.Plan {
	s, r := &c.Scenario, c.Scenario.Request(b.Request)
	path, isTemplate := r.Path, false
	if b.Template != "" && s.Path == "" {
		path, isTemplate = b.Template, true
	}
	p := load.Plan{
		URL: loadURL(at, path), Template: isTemplate, TLS: clientTLS(s, at, r.Host),
		Method: r.Method, Header: []string{"Host: " + r.Host},
		Connections: c.Connections, Threads: min(len(cpus), c.Connections), CPUs: cpus,
		Timeout: requestTimeout, PerConnection: r.PerConnection,
		Pipeline: max(1, s.Streams), Expect: load.Expect{Status: b.Statuses, Body: b.Bodies[s.Path]},
	}
	if !c.Saturated() {
		p.Pace = load.Constant(c.Rate)
	}
	for _, path := range b.Shapes[s.Name].Paths {
		p.List = append(p.List, load.Request{URL: path})
	}
	if s.Spaced { // a single thread opens connections in a known order
		p.Threads, p.Spare = 1, max(1, len(b.CPUs)-1)
	}
	if at.Protocol == contender.HTTP {
		p.Header = append(p.Header, r.Header...)
		p.Version = map[string]load.Version{"1.0": load.HTTP10, equal.HTTP2: load.HTTP2}[r.Version] // or load.HTTP11
	}
	return p
}

// loadURL returns the generator's URL for a place: its scheme names the protocol and the network.
func loadURL(at contender.Place, path string) string {
	scheme := "http"
	if at.Protocol == contender.FastCGI {
		scheme = "fcgi"
	}
	if at.TLS {
		scheme += "s"
	}
	if at.Network() == "tcp" {
		return scheme + "://" + at.Address + path
	}
	socket := url.URL{Path: at.Address}
	return scheme + "+unix://" + strings.ReplaceAll(socket.EscapedPath(), ":", "%3A") + ":" + path
}

// moveAside keeps this process off the servers' processors. generator are the processors of the
// generator's threads; none if servers and generator share all.
func (b *Bench) moveAside(c sample.Condition) (restore func(), generator []int, err error) {
	_, generator = Layout(b.CPUs, c.Cores)
	if generator == nil {
		return func() {}, nil, nil
	}
	if err := bindProcess(generator); err != nil {
		return nil, nil, err
	}
	return func() { _ = bindProcess(b.CPUs) }, generator, nil
}

func bindProcess(cpus []int) error {
	return contender.EachThread(func(tid int) error { return contender.Bind(tid, cpus) })
}

// Layout divides processors between the servers and the generator. If cores is 0, or there are too
// few processors for both, they share all and both results are nil.
func Layout(cpus []int, cores int) (servers, generator []int) {
	if cores == 0 || len(cpus) <= cores {
		return nil, nil
	}
	// Neighboring processors may share a core: the generator takes those at the other end.
	rest := slices.Clone(cpus[cores:])
	slices.Reverse(rest)
	return cpus[:cores], rest[:min(len(rest), 2*cores)]
}

// Generator produces the load of trials on another machine.
type Generator interface {
	// Open is like load.Open.
	Open(ctx context.Context, p load.Plan) (Session, error)
}

// Session has methods of load.Session.
type Session interface {
	Slice(ctx context.Context, d time.Duration, counts bool) (load.Slice, error)
	Close() *load.Result
}

// SessionCache is the number of TLS sessions that the generator keeps for a server.
const SessionCache = 64

// clientTLS returns the generator's TLS configuration for a place; nil without TLS.
func clientTLS(s *sample.Scenario, at contender.Place, host string) *tls.Config {
	if !at.TLS {
		return nil
	}
	config := contender.ClientTLS(host)
	if s.Handshakes == sample.Resumed {
		config.ClientSessionCache = tls.NewLRUClientSessionCache(SessionCache)
	}
	return config
}

// resumedShare is the share of connections that have to resume a session where they are meant to.
// A few are opened before the first session ticket arrives.
const resumedShare = 0.95

// handshakeFault returns why the handshakes of a result were not those of the scenario, or "".
func handshakeFault(s *sample.Scenario, r *load.Result) string {
	if s.Handshakes == sample.Resumed && float64(r.Resumed) < resumedShare*float64(r.Connects) {
		return fmt.Sprintf("it resumed %d of %d TLS sessions", r.Resumed, r.Connects)
	}
	return ""
}
