package shard

import "crypto/tls"

// withoutTurns returns a copy of a tls.Config whose functions do not count as computing while they
// choose a configuration or a certificate: they may wait for a file or for another server. The
// functions of a configuration that GetConfigForClient returns still count.
func withoutTurns(config *tls.Config) *tls.Config {
	config = config.Clone()
	if f := config.GetConfigForClient; f != nil {
		config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			defer pauseTurn(hello)()
			return f(hello)
		}
	}
	if f := config.GetCertificate; f != nil {
		config.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			defer pauseTurn(hello)()
			return f(hello)
		}
	}
	return config
}

// pauseTurn ends the turn of the handshake that calls a function of the program. The result begins
// the next turn.
func pauseTurn(hello *tls.ClientHelloInfo) (resume func()) {
	var h *handshake
	if t, ok := hello.Conn.(*tlsLayer); ok {
		h = t.handshake
	}
	if h == nil { // on the goroutine path
		return func() {}
	}
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	h.endTurn()
	h.all.startQueued()
	return func() {
		h.all.mu.Lock()
		defer h.all.mu.Unlock()
		h.beginTurn()
	}
}
