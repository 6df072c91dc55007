package trial

import (
	"cmp"
	"crypto/tls"
	"fmt"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/equal"
	"github.com/tarehq/tare/load"
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

// sessionCache is the number of TLS sessions that the generator keeps for a server.
const sessionCache = 64

// clientTLS returns the generator's TLS configuration for a place; nil without TLS.
func (s *Scenario) clientTLS(at contender.Place, host string) *tls.Config {
	if !at.TLS {
		return nil
	}
	config := contender.ClientTLS(host)
	if s.Handshakes == Resumed {
		config.ClientSessionCache = tls.NewLRUClientSessionCache(sessionCache)
	}
	return config
}

// version returns the generator's version of HTTP.
func version(text string) load.Version {
	switch text {
	case "1.0":
		return load.HTTP10
	case equal.HTTP2:
		return load.HTTP2
	}
	return load.HTTP11
}

// resumedShare is the share of connections that have to resume a session where they are meant to.
// A few are opened before the first session ticket arrives.
const resumedShare = 0.95

// handshakeFault returns why the handshakes of a result were not those of the scenario, or "".
func (s *Scenario) handshakeFault(r *load.Result) string {
	if s.Handshakes == Resumed && float64(r.Resumed) < resumedShare*float64(r.Connects) {
		return fmt.Sprintf("it resumed %d of %d TLS sessions", r.Resumed, r.Connects)
	}
	return ""
}
