package load

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net/netip"
	"runtime"
	"slices"
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
	//	http://host:port/path       HTTP over TCP; port 80 if there is none
	//	https://host:port/path      HTTP over TLS; port 443
	//	fcgi://host:port/path       FastCGI over TCP; port 9000
	//	fcgis://host:port/path      FastCGI over TLS
	//	http+unix:///socket:/path   over the unix socket /socket; likewise https+unix,
	//	                            fcgi+unix and fcgis+unix
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

	// Version is the version of HTTP to speak. Of HTTP/2, connections have as many streams
	// at a time as Pipeline says.
	Version Version

	// List holds requests to send instead of the one above, each worker in the order of the
	// list. What one of them leaves empty is the plan's; its Header is added to the plan's.
	List []Request
	// Shuffle takes a request of the List at random each time.
	Shuffle bool
	// Template has values put into URLs, headers and bodies anew for each request, where
	// these expressions are:
	//
	//	{{seq}}         0, 1, 2 and so on: another for each request of the run
	//	{{seq 5 9}}     5, 6, 7, 8, 9, 5 and so on
	//	{{random 5 9}}  one of 5 to 9, at random
	//	{{hex 8}}       eight hexadecimal digits, at random
	Template bool

	// Resolve has names lead to other addresses, each "host:port:address" as curl has it.
	Resolve []string
	// Sources are local addresses to connect from. The next has its turn after some thousand
	// connections, or when one has no more ports. If there are none, that is the system's
	// choice first, and to a loopback address of IPv4 then others of those.
	Sources []netip.Addr
	// TLS is how to speak TLS; nil is Go's defaults. The ServerName it lacks is the URL's
	// host.
	TLS *tls.Config

	Connections int           // DefaultConnections if 0
	Threads     int           // as many as processors, at most Connections, if 0
	Warmup      time.Duration // before measuring
	// Duration is how long to measure. 0 is DefaultDuration, or until Requests have been
	// sent and answered, if that is set.
	Duration time.Duration
	Requests uint64        // after how many measured requests to end; no bound if 0
	Timeout  time.Duration // for connecting, and for a response; DefaultTimeout if 0

	// PerConnection is how many requests a connection is used for; no bound if 0. The last
	// of them says that it is the last.
	PerConnection int
	// Pipeline is how many requests a connection has under way at a time; 1 if 0.
	Pipeline int
	// Think is how long a connection rests after each response, at random up to that.
	Think time.Duration

	// Pace says when requests are due, over all connections: an open loop. The zero value is
	// a closed loop, in which each connection sends the next when the last was answered.
	Pace Pace

	// Spare is how many more connections are opened after each of Connections. They
	// send nothing.
	Spare int

	// Expect says which responses are right. What is not counts as an error.
	Expect Expect

	// MaxErrors is after how many measured errors the run ends; no bound if 0.
	MaxErrors uint64

	// Samples is how many requests to keep the times of, one by one, from the first on.
	Samples int

	// CPUs are the processors that threads are bound to, in turn. Empty leaves
	// that to the system.
	CPUs []int

	// Trace is told how the run goes. It may be nil.
	Trace *Trace
}

// Request is one of a plan's List.
type Request struct {
	// URL is like a plan's, of the same server, or only a path, which begins with a slash.
	URL    string
	Method string
	Header []string
	Body   string
}

// Version is a version of HTTP.
type Version uint8

const (
	// HTTP11 is HTTP/1.1.
	HTTP11 Version = iota
	// HTTP10 keeps a connection only if the response says "Connection: keep-alive", for
	// which it asks if the plan's header does.
	HTTP10
	// HTTP2 is agreed on with TLS, and taken for granted without it.
	HTTP2
)

// Expect says which responses are right. The zero value accepts those whose status is below
// 400.
type Expect struct {
	Status     []int    // one of these
	Body       []byte   // as it is sent; nil is any. To compare it costs the generator less than a hash
	BodySHA256 string   // of the body as it is sent, in hexadecimal
	Header     []string // each "Name: value", or "Name" for any value; all of them
}

// Trace is a set of hooks, each of which may be nil. They are called one at a time, by
// the goroutine that called Run.
type Trace struct {
	Connected func()         // all connections were made, or could not be
	Started   func()         // just before measuring
	Progress  func(Progress) // about ten times a second
	Second    func(Second)   // after each whole second of measuring
	Ended     func()         // just after measuring, while connections are still open
}

// Progress is a glance at a run.
type Progress struct {
	Measuring bool
	Elapsed   time.Duration // of warm-up or of measuring
	Requests  uint64        // measured so far
	Errors    Errors        // likewise
}

// job is a Plan made ready: nothing in it is looked up or worked out again.
type job struct {
	Plan
	protocol protocol
	address  address
	tls      *tls.Config // nil without TLS
	requests []plannedRequest
	expected expectation
}

// asked is one of a plan's requests.
type plannedRequest struct {
	*request
	expressions []expression // of a template
}

// PlanError is what Run returns when the plan cannot be carried out as it is.
type PlanError struct{ Reason string }

func (e *PlanError) Error() string { return "load: " + e.Reason }

func badPlan(format string, args ...any) error { return &PlanError{fmt.Sprintf(format, args...)} }

// withDefaults returns the plan with its zero fields filled in.
func (p Plan) withDefaults() Plan {
	p.Method = cmp.Or(p.Method, "GET")
	p.Connections = cmp.Or(p.Connections, DefaultConnections)
	p.Pipeline = cmp.Or(p.Pipeline, 1)
	p.Threads = cmp.Or(p.Threads, min(runtime.NumCPU(), p.Connections))
	if p.Requests == 0 {
		p.Duration = cmp.Or(p.Duration, DefaultDuration)
	}
	p.Timeout = cmp.Or(p.Timeout, DefaultTimeout)
	p.Trace = cmp.Or(p.Trace, &Trace{})
	return p
}

// maxPipeline bounds how many requests a connection has under way.
const maxPipeline = 1024

// check says what is wrong with a plan's numbers.
func (p *Plan) check() error {
	if p.Connections < 1 || p.Threads < 1 || p.Threads > p.Connections {
		return badPlan("%d threads for %d connections: need at least one of each, and no more threads than connections", p.Threads, p.Connections)
	}
	if p.Duration < 0 || p.Warmup < 0 || p.Timeout < 0 || p.Think < 0 {
		return badPlan("a time is negative")
	}
	if p.Spare < 0 {
		return badPlan("%d spare connections: want a number from 0", p.Spare)
	}
	if p.PerConnection < 0 || p.Pipeline < 1 || p.Samples < 0 {
		return badPlan("%d requests on a connection, %d at a time, %d samples: want numbers from 0", p.PerConnection, p.Pipeline, p.Samples)
	}
	if p.Pipeline > maxPipeline {
		return badPlan("%d requests at a time on a connection: want at most %d", p.Pipeline, maxPipeline)
	}
	if p.Pace.open() && (p.Pipeline > 1 && p.Version != HTTP2 || p.Think > 0) {
		return badPlan("a rate says when requests are sent: it goes with neither pipelining nor time to think")
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
	to, err := j.readRequests()
	if err != nil {
		return nil, err
	}
	if j.expected, err = j.Expect.prepare(); err != nil {
		return nil, err
	}
	j.protocol = to.protocol
	if j.Pipeline > 1 && !j.protocol.allowsPipelining() {
		return nil, badPlan("%d requests at a time on a connection: FastCGI has one", j.Pipeline)
	}
	if to.secure {
		j.tls = newTLSConfig(&j.Plan, &to)
	}
	j.address, err = resolve(ctx, &to, j.Resolve, j.Timeout)
	return j, err
}

// readRequests takes the plan's requests apart, and returns where they go.
func (j *job) readRequests() (to parsedURL, err error) {
	list := j.List
	if len(list) == 0 {
		list = []Request{{}}
	}
	for i, r := range list {
		q, expressions, err := j.readRequest(r)
		if err != nil {
			return to, err
		}
		if i == 0 {
			to = q.parsedURL
		}
		if !to.sameServer(&q.parsedURL) {
			return to, badPlan("%q and %q are not of one server", j.requests[0].host, q.host)
		}
		j.requests = append(j.requests, plannedRequest{q, expressions})
	}
	return to, nil
}

func (j *job) readRequest(r Request) (*request, []expression, error) {
	p := j.Plan
	p.URL = resolveURL(p.URL, r.URL)
	p.Method = cmp.Or(r.Method, p.Method)
	p.Header = append(slices.Clip(p.Header), r.Header...)
	p.Body = cmp.Or(r.Body, p.Body)
	var expressions []expression
	if p.Template {
		if err := p.markTemplates(&expressions); err != nil {
			return nil, nil, err
		}
	}
	to, err := parseURL(p.URL, p.Version)
	if err != nil {
		return nil, nil, err
	}
	q, err := newRequest(&p, to)
	return q, expressions, err
}

// mark marks the expressions of all that may hold some.
func (p *Plan) markTemplates(all *[]expression) (err error) {
	p.Header, p.Params = slices.Clone(p.Header), slices.Clone(p.Params)
	texts := []*string{&p.URL, &p.Body}
	for i := range p.Header {
		texts = append(texts, &p.Header[i])
	}
	for i := range p.Params {
		texts = append(texts, &p.Params[i])
	}
	for _, text := range texts {
		if *text, err = markExpressions(*text, all); err != nil {
			return err
		}
	}
	return nil
}
