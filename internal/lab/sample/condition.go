package sample

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/lab/equal"
	loadreport "github.com/tarehq/tare/load/report"
)

// Condition holds the parameters of a trial besides the contender.
type Condition struct {
	Cores       int `json:"cores"` // of the servers; 0 is all, shared with the generator
	Connections int `json:"connections"`

	// Rate is the number of requests per second that every contender receives. 0 is saturation: a
	// connection sends the next request after the last response.
	Rate float64 `json:"rate,omitempty"`

	Procs int `json:"procs,omitempty"` // GOMAXPROCS or processes of the application; 0 is as many as cores

	// Scenario is the form of the load; the zero value is the experiment's request.
	Scenario Scenario `json:"scenario,omitzero"`
}

// Saturated reports whether a connection sends the next request after the last response, without a
// schedule.
func (c Condition) Saturated() bool { return c.Rate == 0 }

// Text describes the condition, as it stands after "with".
func (c Condition) Text() string {
	if c.Connections == 0 { // of programs that measure themselves
		return fmt.Sprintf("%s, GOMAXPROCS %d", c.Scenario.Name, c.Procs)
	}
	words := []string{loadreport.Plural(c.Connections, "connection")}
	if s := c.Scenario; s.Name != "" {
		words[0] += " (" + s.Name + ")"
	}
	if c.Procs > 0 {
		words = append(words, fmt.Sprintf("GOMAXPROCS %d", c.Procs))
	}
	switch c.Cores {
	case 0:
		words = append(words, "all cores shared")
	case 1:
		words = append(words, "the servers on one core")
	default:
		words = append(words, fmt.Sprintf("the servers on %d cores", c.Cores))
	}
	if c.Saturated() {
		return List(words)
	}
	return fmt.Sprintf("%s, at %s requests/s", List(words), loadreport.Count(c.Rate))
}

// List joins words as in a sentence.
func List(words []string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// Scenario is the form of a condition's load where it differs from the experiment's request. It is
// comparable, as a part of Condition.
type Scenario struct {
	Name    string `json:"name,omitempty" yaml:"name"`       // in reports, as it stands after "with"
	Version string `json:"version,omitempty" yaml:"version"` // of HTTP: "1.1" or equal.HTTP2; "" is the request's
	Path    string `json:"path,omitempty" yaml:"path"`       // "" is the request's
	Streams int    `json:"streams,omitempty" yaml:"streams"` // concurrent ones of an HTTP/2 connection; 0 is one

	// Handshakes is Full or Resumed if each request has its own TLS connection.
	Handshakes string `json:"handshakes,omitempty" yaml:"handshakes"`
	// Header has more fields, "Name: value", one a line.
	Header string `json:"header,omitempty" yaml:"-"`
	// PerConnection is the number of requests on a connection; 0 is the request's.
	PerConnection int `json:"perConnection,omitempty" yaml:"per_connection"`
	// Spaced is set if idle connections lie between the busy ones.
	Spaced bool `json:"spaced,omitempty" yaml:"spaced"`
	// Fresh is set if each contender is measured alone, as new processes.
	Fresh bool `json:"fresh,omitempty" yaml:"fresh"`
	// Idle is set if each connection carries one request and is idle afterwards. Memory and CPU
	// time are measured then.
	Idle bool `json:"idle,omitempty" yaml:"idle"`
}

// Values of Scenario.Handshakes.
const (
	Full    = "full"    // no session is resumed
	Resumed = "resumed" // the client resumes the latest session
)

// Request returns the request of the scenario for package equal.
func (s *Scenario) Request(r equal.Request) equal.Request {
	r.Version = cmp.Or(s.Version, r.Version)
	r.Path = cmp.Or(s.Path, r.Path)
	r.PerConnection = cmp.Or(s.PerConnection, r.PerConnection)
	if s.Header != "" {
		r.Header = append(slices.Clip(r.Header), strings.Split(s.Header, "\n")...)
	}
	if s.Handshakes != "" {
		r.PerConnection, r.Resume = 1, s.Handshakes == Resumed
	}
	return r
}
