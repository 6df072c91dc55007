package agent

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"time"
	"unicode/utf8"

	"github.com/tarehq/tare/load"
)

// Plan is the JSON form of a load.Plan. Fields without a comment are those of that Plan.
type Plan struct {
	URL           string        `json:"url"`
	Method        string        `json:"method,omitempty"`
	Header        []string      `json:"header,omitempty"`
	Body          string        `json:"body,omitempty"`
	BodyBytes     []byte        `json:"bodyBase64,omitempty"` // a body that is not UTF-8
	Params        []string      `json:"params,omitempty"`
	HTTP          string        `json:"http,omitempty"` // "1.0", "1.1" (default) or "2"
	List          []Request     `json:"list,omitempty"`
	Shuffle       bool          `json:"shuffle,omitempty"`
	Template      bool          `json:"template,omitempty"`
	Resolve       []string      `json:"resolve,omitempty"`
	Sources       []netip.Addr  `json:"sources,omitempty"`
	TLS           *TLS          `json:"tls,omitempty"`
	Connections   int           `json:"connections,omitempty"`
	Threads       int           `json:"threads,omitempty"`
	Warmup        time.Duration `json:"warmupNs,omitempty"`
	Duration      time.Duration `json:"durationNs,omitempty"`
	Requests      uint64        `json:"requests,omitempty"`
	Timeout       time.Duration `json:"timeoutNs,omitempty"`
	PerConnection int           `json:"requestsPerConnection,omitempty"`
	Pipeline      int           `json:"pipeline,omitempty"`
	Think         time.Duration `json:"thinkNs,omitempty"`
	Steps         []Step        `json:"steps,omitempty"` // of the rate; a closed loop without any
	Poisson       bool          `json:"poisson,omitempty"`
	Seed          uint64        `json:"seed,omitempty"`
	Spare         int           `json:"spareConnections,omitempty"`
	Expect        *Expect       `json:"expect,omitempty"`
	MaxErrors     uint64        `json:"maxErrors,omitempty"`
	Samples       int           `json:"samples,omitempty"`
	CPUs          []int         `json:"cpus,omitempty"`
	Part          *Part         `json:"part,omitempty"`
}

// Request is the JSON form of a load.Request.
type Request struct {
	URL    string   `json:"url,omitempty"`
	Method string   `json:"method,omitempty"`
	Header []string `json:"header,omitempty"`
	Body   string   `json:"body,omitempty"`
}

// Step is the JSON form of a load.Step.
type Step struct {
	From float64       `json:"fromPerSecond"`
	To   float64       `json:"toPerSecond"`
	For  time.Duration `json:"forNs,omitempty"`
}

// Expect is the JSON form of a load.Expect.
type Expect struct {
	Status     []int    `json:"status,omitempty"`
	Body       []byte   `json:"bodyBase64,omitempty"`
	BodySHA256 string   `json:"bodySha256,omitempty"`
	Header     []string `json:"header,omitempty"`
}

// Part is the JSON form of a load.Part.
type Part struct {
	Threads         int `json:"threads"`
	FirstThread     int `json:"firstThread"`
	Connections     int `json:"connections"`
	FirstConnection int `json:"firstConnection"`
}

// TLS is a TLS configuration in a form that can be sent. The zero value is Go's default.
type TLS struct {
	Insecure   bool   `json:"insecure,omitempty"`       // accept any certificate
	CA         string `json:"caPem,omitempty"`          // trusted certificates; empty means the system's
	Cert       string `json:"certificatePem,omitempty"` // client certificate
	Key        string `json:"keyPem,omitempty"`         // its key; empty means that Cert holds it
	ServerName string `json:"serverName,omitempty"`
	// Curves are those of tls.Config.CurvePreferences.
	Curves []tls.CurveID `json:"curves,omitempty"`
	// Sessions is the number of TLS sessions that are kept, which later handshakes resume.
	Sessions int `json:"sessions,omitempty"`
}

// Config returns the configuration.
func (t *TLS) Config() (*tls.Config, error) {
	config := &tls.Config{InsecureSkipVerify: t.Insecure, ServerName: t.ServerName, CurvePreferences: t.Curves}
	if t.Sessions > 0 {
		config.ClientSessionCache = tls.NewLRUClientSessionCache(t.Sessions)
	}
	if t.CA != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(t.CA)) {
			return nil, errors.New("trusted certificates: no certificate in PEM form")
		}
	}
	if t.Cert != "" {
		key := t.Key
		if key == "" {
			key = t.Cert
		}
		pair, err := tls.X509KeyPair([]byte(t.Cert), []byte(key))
		if err != nil {
			return nil, fmt.Errorf("client certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// NewPlan returns the JSON form of a plan. Its TLS is described by t, and its Trace is left out.
func NewPlan(p load.Plan, t *TLS) (*Plan, error) {
	out := &Plan{
		URL: p.URL, Method: p.Method, Header: p.Header, Params: p.Params, Shuffle: p.Shuffle, Template: p.Template,
		Resolve: p.Resolve, Sources: p.Sources, TLS: t, Connections: p.Connections, Threads: p.Threads,
		Warmup: p.Warmup, Duration: p.Duration, Requests: p.Requests, Timeout: p.Timeout,
		PerConnection: p.PerConnection, Pipeline: p.Pipeline, Think: p.Think, Poisson: p.Pace.Poisson,
		Seed: p.Pace.Seed, Spare: p.Spare, MaxErrors: p.MaxErrors, Samples: p.Samples, CPUs: p.CPUs,
		HTTP: versionName(p.Version),
	}
	if out.Body = p.Body; !utf8.ValidString(p.Body) {
		out.Body, out.BodyBytes = "", []byte(p.Body)
	}
	texts := append([]string{p.URL, p.Method}, p.Header...)
	texts = append(texts, p.Params...)
	for _, r := range p.List {
		out.List = append(out.List, Request(r))
		texts = append(append(texts, r.URL, r.Method, r.Body), r.Header...)
	}
	for _, text := range texts {
		if !utf8.ValidString(text) {
			return nil, &load.PlanError{Reason: fmt.Sprintf("%q is not UTF-8, which an agent requires", text)}
		}
	}
	for _, s := range p.Pace.Steps {
		out.Steps = append(out.Steps, Step(s))
	}
	if e := p.Expect; len(e.Status) > 0 || e.Body != nil || e.BodySHA256 != "" || len(e.Header) > 0 {
		out.Expect = &Expect{e.Status, e.Body, e.BodySHA256, e.Header}
	}
	if p.Part != (load.Part{}) {
		out.Part = &Part{p.Part.Threads, p.Part.FirstThread, p.Part.Connections, p.Part.FirstConnection}
	}
	return out, nil
}

// Load returns the plan, without a Trace.
func (p *Plan) Load() (load.Plan, error) {
	out := load.Plan{
		URL: p.URL, Method: p.Method, Header: p.Header, Body: p.Body, Params: p.Params, Shuffle: p.Shuffle,
		Template: p.Template, Resolve: p.Resolve, Sources: p.Sources, Connections: p.Connections,
		Threads: p.Threads, Warmup: p.Warmup, Duration: p.Duration, Requests: p.Requests, Timeout: p.Timeout,
		PerConnection: p.PerConnection, Pipeline: p.Pipeline, Think: p.Think,
		Pace:  load.Pace{Poisson: p.Poisson, Seed: p.Seed},
		Spare: p.Spare, MaxErrors: p.MaxErrors, Samples: p.Samples, CPUs: p.CPUs,
	}
	if len(p.BodyBytes) > 0 {
		out.Body = string(p.BodyBytes)
	}
	for _, r := range p.List {
		out.List = append(out.List, load.Request(r))
	}
	for _, s := range p.Steps {
		out.Pace.Steps = append(out.Pace.Steps, load.Step(s))
	}
	if e := p.Expect; e != nil {
		out.Expect = load.Expect{Status: e.Status, Body: e.Body, BodySHA256: e.BodySHA256, Header: e.Header}
	}
	if w := p.Part; w != nil {
		out.Part = load.Part{Threads: w.Threads, FirstThread: w.FirstThread, Connections: w.Connections,
			FirstConnection: w.FirstConnection}
	}
	var err error
	if out.Version, err = parseVersion(p.HTTP); err != nil {
		return out, err
	}
	if p.TLS != nil {
		if out.TLS, err = p.TLS.Config(); err != nil {
			return out, &load.PlanError{Reason: "TLS: " + err.Error()}
		}
	}
	return out, nil
}

func versionName(v load.Version) string {
	switch v {
	case load.HTTP10:
		return "1.0"
	case load.HTTP2:
		return "2"
	}
	return ""
}

func parseVersion(name string) (load.Version, error) {
	switch name {
	case "", "1.1":
		return load.HTTP11, nil
	case "1.0":
		return load.HTTP10, nil
	case "2":
		return load.HTTP2, nil
	}
	return 0, &load.PlanError{Reason: fmt.Sprintf("HTTP version %q: want 1.0, 1.1 or 2", name)}
}
