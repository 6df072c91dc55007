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
	Name    string `json:"name,omitempty"`    // in reports, as it stands after "with"
	Version string `json:"version,omitempty"` // of HTTP: equal.HTTP2; "" is the request's
	Path    string `json:"path,omitempty"`    // "" is the request's
	Streams int    `json:"streams,omitempty"` // concurrent ones of an HTTP/2 connection; 0 is one

	// Handshakes is Full or Resumed if each request has its own TLS connection.
	Handshakes string `json:"handshakes,omitempty"`

	Header        string `json:"header,omitempty"`        // more fields, "Name: value", one a line
	PerConnection int    `json:"perConnection,omitempty"` // requests on a connection; 0 is the request's
	Spaced        bool   `json:"spaced,omitempty"`        // idle connections lie between the busy ones
	Fresh         bool   `json:"fresh,omitempty"`         // each contender is measured alone, as new processes
	Idle          bool   `json:"idle,omitempty"`          // connections carry one request, and are idle then
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

// IsPlain reports whether a response has as many bytes as one to the experiment's own request.
func (s *Scenario) IsPlain() bool {
	return s.Version != equal.HTTP2 && s.Path == "" && s.Handshakes == ""
}

// InFlight returns the number of requests in flight at saturation.
func (c Condition) InFlight() int { return c.Connections * max(1, c.Scenario.Streams) }
