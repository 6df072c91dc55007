package trial

import (
	"crypto/tls"
	"fmt"

	"github.com/tarehq/tare/internal/lab/contender"
	"github.com/tarehq/tare/internal/lab/equal"
	"github.com/tarehq/tare/internal/lab/sample"
	"github.com/tarehq/tare/load"
)

// sessionCache is the number of TLS sessions that the generator keeps for a server.
const sessionCache = 64

// clientTLS returns the generator's TLS configuration for a place; nil without TLS.
func clientTLS(s *sample.Scenario, at contender.Place, host string) *tls.Config {
	if !at.TLS {
		return nil
	}
	config := contender.ClientTLS(host)
	if s.Handshakes == sample.Resumed {
		config.ClientSessionCache = tls.NewLRUClientSessionCache(sessionCache)
	}
	return config
}

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
func handshakeFault(s *sample.Scenario, r *load.Result) string {
	if s.Handshakes == sample.Resumed && float64(r.Resumed) < resumedShare*float64(r.Connects) {
		return fmt.Sprintf("it resumed %d of %d TLS sessions", r.Resumed, r.Connects)
	}
	return ""
}
