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

// Defaults for the zero fields of a Plan.
const (
	DefaultConnections = 10
	DefaultDuration    = 10 * time.Second
	DefaultTimeout     = 5 * time.Second
)

// Plan describes the requests, the server, the connections and the duration of a run. Only URL is
// required. Its JSON is a part of package agent's.
type Plan struct {
	// URL is the request's target and how to connect to the server:
	//
	//	http://host:port/path       HTTP over TCP; default port 80
	//	https://host:port/path      HTTP over TLS; default port 443
	//	fcgi://host:port/path       FastCGI over TCP; default port 9000
	//	fcgis://host:port/path      FastCGI over TLS
	//	http+unix:///socket:/path   HTTP over the unix socket /socket; likewise https+unix,
	//	                            fcgi+unix and fcgis+unix
	//
	// The socket's path ends at the first colon; a colon inside it is written %3A. If the colon and
	// the request's path are missing, that path is "/".
	URL    string   `json:"url"`
	Method string   `json:"method,omitempty"` // GET if empty
	Header []string `json:"header,omitempty"` // header fields, each "Name: value"
	Body   string   `json:"body,omitempty"`

	// Params are parameters of a FastCGI request, each "NAME=value". They extend or replace those
	// of nginx's file fastcgi_params. Typical ones are DOCUMENT_ROOT, or SCRIPT_FILENAME, which
	// begins with it. SERVER_ADDR and SERVER_PORT are the application's address; REMOTE_ADDR is on
	// the same machine.
	Params []string `json:"params,omitempty"`

	// Version is the version of HTTP. With HTTP/2, Pipeline limits the concurrent streams of a
	// connection.
	Version Version `json:"-"`

	// List holds requests to send instead of the one above. Each worker sends them in the order of
	// the list. Empty fields default to the Plan's; a Request's Header extends the Plan's.
	List []Request `json:"list,omitempty"`
	// Shuffle picks a random request of List each time.
	Shuffle bool `json:"shuffle,omitempty"`
	// Template replaces these expressions in URLs, header fields and bodies anew for each request:
	//
	//	{{seq}}         0, 1, 2 and so on: a different number for each request of the run
	//	{{seq 5 9}}     5, 6, 7, 8, 9, 5 and so on
	//	{{random 5 9}}  a random number from 5 to 9
	//	{{hex 8}}       eight random hexadecimal digits
	Template bool `json:"template,omitempty"`

	// Sources are local addresses to connect from. A worker moves to the next one after 4096
	// connections, or if an address has no free port. Without Sources, the system chooses. To an
	// IPv4 loopback address, other loopback addresses then take turns with its choice.
	Sources []netip.Addr `json:"sources,omitempty"`
	// TLS configures TLS; nil means Go's defaults. An empty ServerName defaults to the URL's host.
	TLS *tls.Config `json:"-"`

	Connections int           `json:"connections,omitempty"` // DefaultConnections if 0
	Threads     int           `json:"threads,omitempty"`     // if 0, the number of CPUs, but at most Connections
	Warmup      time.Duration `json:"warmupNs,omitempty"`    // before measuring
	// Duration is how long to measure. If it is 0, the run ends after Requests, or after
	// DefaultDuration if Requests is 0, too.
	Duration time.Duration `json:"durationNs,omitempty"`
	Requests uint64        `json:"requests,omitempty"`  // measured requests after which the run ends; 0 means no limit
	Timeout  time.Duration `json:"timeoutNs,omitempty"` // for connecting and for a response; DefaultTimeout if 0

	// PerConnection is the number of requests after which a connection is closed; 0 means no limit.
	// The last request announces the close.
	PerConnection int `json:"requestsPerConnection,omitempty"`
	// Pipeline is the number of concurrent requests on a connection; 1 if 0.
	Pipeline int `json:"pipeline,omitempty"`
	// Think is the longest pause of a connection after a response. Each pause is random, up to
	// Think.
	Think time.Duration `json:"thinkNs,omitempty"`

	// Pace schedules the requests of all connections together: an open loop. The zero value is a
	// closed loop. It is embedded because its fields are those of the Plan in JSON.
	Pace

	// Spare is the number of additional connections opened after each of Connections. They send
	// nothing.
	Spare int `json:"spareConnections,omitempty"`

	// Expect describes correct responses. Others count as errors.
	Expect Expect `json:"expect,omitzero"`

	// MaxErrors is the number of measured errors after which the run ends; 0 means no limit.
	MaxErrors uint64 `json:"maxErrors,omitempty"`

	// Samples is the number of requests whose times are kept individually, from the first on.
	Samples int `json:"samples,omitempty"`

	// CPUs are the CPUs to which threads are bound in turn. If empty, the system schedules them.
	CPUs []int `json:"cpus,omitempty"`

	// Part makes the Plan a part of a whole Plan that several processes run; see Split.
	Part Part `json:"part,omitzero"`

	// Trace receives events of the run. It may be nil.
	Trace *Trace `json:"-"`
}

// Request is one of a plan's List.
type Request struct {
	// URL is a URL of the Plan's server, or only a path, which begins with a slash.
	URL    string   `json:"url,omitempty"`
	Method string   `json:"method,omitempty"`
	Header []string `json:"header,omitempty"`
	Body   string   `json:"body,omitempty"`
}

// Version is a version of HTTP.
type Version uint8

const (
	// HTTP11 is HTTP/1.1.
	HTTP11 Version = iota
	// HTTP10 keeps a connection only if the response has "Connection: keep-alive". The request has
	// it only if Plan.Header does.
	HTTP10
	// HTTP2 is negotiated over TLS and assumed without it.
	HTTP2
)

// Expect describes correct responses. The zero value accepts every status below 400.
type Expect struct {
	Status []int  `json:"status,omitempty"`    // allowed status codes
	Body   []byte `json:"bodyBase64,omitzero"` // as received; nil allows any
	// Header are required fields of the head or the trailer section, each "Name: value", or "Name"
	// for any value.
	Header []string `json:"header,omitempty"`
}

// Trace is a set of hooks. Each may be nil. The goroutine that called Run calls them, one at a
// time.
type Trace struct {
	Connected func()         // after all connections were opened or failed
	Started   func()         // just before the measured time
	Progress  func(Progress) // about ten times a second
	Second    func(Second)   // after each second of the measured time; the last may be shorter
	Ended     func()         // just after the measured time, while connections are still open
}

// Progress is a snapshot of a running Plan.
type Progress struct {
	Measuring bool
	Elapsed   time.Duration // of the warm-up or of the measured time
	Requests  uint64        // measured so far
	Errors    Errors        // measured so far
}

// job is a validated Plan with everything that Run needs precomputed.
type job struct {
	plan     Plan
	protocol protocol
	address  address
	tls      *tls.Config // nil without TLS
	requests []*request
	expected expectation
}

// PlanError is the error of an invalid Plan.
type PlanError struct{ Reason string }

func (e *PlanError) Error() string { return "load: " + e.Reason }

func badPlan(format string, args ...any) error { return &PlanError{fmt.Sprintf(format, args...)} }

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

const (
	maxPipeline = 1024
	// maxConnections is the default limit of a process's files (fs.nr_open in proc_sys_fs(5)).
	maxConnections = 1 << 20
)

func (p *Plan) check() error {
	if p.Connections < 1 || p.Threads < 1 || p.Threads > p.Connections {
		return badPlan("%d threads for %d connections: want at least one of each, and no more threads than connections",
			p.Threads, p.Connections)
	}
	if p.Duration < 0 || p.Warmup < 0 || p.Timeout < 0 || p.Think < 0 {
		return badPlan("duration %v, warm-up %v, timeout %v, think time %v: want 0 or more of each", p.Duration,
			p.Warmup, p.Timeout, p.Think)
	}
	if p.Spare < 0 {
		return badPlan("%d spare connections: want 0 or more", p.Spare)
	}
	if p.Connections > maxConnections/(1+p.Spare) {
		return badPlan("%d connections, %d spare ones for each: want at most %d together in a process", p.Connections,
			p.Spare, maxConnections)
	}
	if p.PerConnection < 0 || p.Pipeline < 1 || p.Samples < 0 {
		return badPlan("%d requests per connection, %d at a time, %d samples: want 0 or more of each", p.PerConnection,
			p.Pipeline, p.Samples)
	}
	if p.Pipeline > maxPipeline {
		return badPlan("%d requests at a time on a connection: want at most %d", p.Pipeline, maxPipeline)
	}
	if p.Pace.open() && (p.Pipeline > 1 && p.Version != HTTP2 || p.Think > 0) {
		return badPlan("a rate cannot be combined with pipelining or think time: it already schedules each request")
	}
	if err := p.Pace.check(); err != nil {
		return err
	}
	if err := p.checkPart(); err != nil {
		return err
	}
	for _, cpu := range p.CPUs {
		if cpu < 0 {
			return badPlan("CPU %d: want numbers from 0", cpu)
		}
	}
	return nil
}

func (p Plan) prepare(ctx context.Context) (*job, error) {
	j := &job{plan: p.withDefaults()}
	if err := j.plan.check(); err != nil {
		return nil, err
	}
	to, err := j.readRequests()
	if err != nil {
		return nil, err
	}
	if j.expected, err = j.plan.Expect.prepare(); err != nil {
		return nil, err
	}
	j.protocol = to.protocol
	if j.plan.Pipeline > 1 && isFastCGI(j.protocol) {
		return nil, badPlan("%d requests at a time on a connection: FastCGI allows one", j.plan.Pipeline)
	}
	if to.secure {
		j.tls = newTLSConfig(&j.plan, &to)
	}
	j.address, err = resolve(ctx, &to, j.plan.Timeout)
	return j, err
}

// readRequests parses the Plan's requests and returns the URL of the first.
func (j *job) readRequests() (to parsedURL, err error) {
	list := j.plan.List
	if len(list) == 0 {
		list = []Request{{}}
	}
	for i, r := range list {
		q, err := j.plan.readRequest(r)
		if err != nil {
			return to, err
		}
		if i == 0 {
			to = q.url
		}
		if !to.sameServer(&q.url) {
			return to, badPlan("%q and %q are different servers: want one for all requests",
				j.requests[0].url.host, q.url.host)
		}
		j.requests = append(j.requests, q)
	}
	return to, nil
}

func (p Plan) readRequest(r Request) (*request, error) {
	p.URL = resolveURL(p.URL, r.URL)
	p.Method = cmp.Or(r.Method, p.Method)
	p.Header = append(slices.Clip(p.Header), r.Header...)
	p.Body = cmp.Or(r.Body, p.Body)
	var expressions []expression
	if p.Template {
		if err := p.markTemplates(&expressions); err != nil {
			return nil, err
		}
	}
	to, err := parseURL(p.URL, p.Version)
	if err != nil {
		return nil, err
	}
	return newRequest(&p, to, expressions)
}

// markTemplates replaces the expressions in all texts that may hold some by marks.
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
