package sample

import (
	"cmp"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/lab/equal"
)

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
	// Idle is set if connections carry one request and are idle then. Memory and CPU time are
	// measured.
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
