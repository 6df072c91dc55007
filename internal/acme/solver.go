package acme

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mholt/acmez/v3"
	"github.com/mholt/acmez/v3/acme"
)

// httpPrefix begins the paths of challenges (RFC 8555, 8.3).
const httpPrefix = "/.well-known/acme-challenge/"

// DNSProvider sets TXT records for challenges of type DNS-01.
type DNSProvider interface {
	// Present creates a TXT record. It returns when all of the zone's name servers have it.
	Present(ctx context.Context, name, value string) error
	// CleanUp removes the record.
	CleanUp(ctx context.Context, name, value string) error
}

// challenges are those of orders in progress, except DNS-01. It implements acmez.Solver.
type challenges struct {
	mu  sync.Mutex
	all map[challengeKey]acme.Challenge
	// reserved are the names of orders with TLS-ALPN-01. The name in the handshake alone selects the
	// challenge, so orders for one name take turns.
	reserved map[string]bool
}

// challengeKey is what a request for a challenge has: the token of HTTP-01, or the name in the
// handshake of TLS-ALPN-01.
type challengeKey struct{ kind, value string }

func keyOf(c acme.Challenge) challengeKey {
	if c.Type == acme.ChallengeTypeHTTP01 {
		return challengeKey{c.Type, c.Token}
	}
	return challengeKey{c.Type, handshakeName(c.Identifier.Value)}
}

func newChallenges() *challenges {
	return &challenges{all: make(map[challengeKey]acme.Challenge), reserved: make(map[string]bool)}
}

// reserve waits until no other order has one of the names.
func (c *challenges) reserve(ctx context.Context, names []string) (release func(), err error) {
	for !c.tryReserve(names) {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("another certificate with one of the names is being ordered: %w", ctx.Err())
		case <-time.After(lockRetry):
		}
	}
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, name := range names {
			delete(c.reserved, name)
		}
	}, nil
}

func (c *challenges) tryReserve(names []string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.ContainsFunc(names, func(name string) bool { return c.reserved[name] }) {
		return false
	}
	for _, name := range names {
		c.reserved[name] = true
	}
	return true
}

// solvers returns the solver of an issuer's challenge.
func (c *challenges) solvers(of string, dns DNSProvider) map[string]acmez.Solver {
	if of = cmp.Or(of, acme.ChallengeTypeHTTP01); of == acme.ChallengeTypeDNS01 {
		return map[string]acmez.Solver{of: dnsSolver{dns}}
	}
	return map[string]acmez.Solver{of: c}
}

// Present implements acmez.Solver.
func (c *challenges) Present(_ context.Context, challenge acme.Challenge) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all[keyOf(challenge)] = challenge
	return nil
}

// CleanUp implements acmez.Solver.
func (c *challenges) CleanUp(_ context.Context, challenge acme.Challenge) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.all, keyOf(challenge))
	return nil
}

// find returns the challenge in progress for a token or a name.
func (c *challenges) find(kind, value string) (challenge acme.Challenge, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	challenge, ok = c.all[challengeKey{kind, value}]
	return challenge, ok
}

// Handler returns a handler that responds to HTTP-01 challenges, and passes all other requests to
// next.
func (m *Manager) Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		token, ok := strings.CutPrefix(r.URL.Path, httpPrefix)
		if ok && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			if challenge, ok := m.challenges.find(acme.ChallengeTypeHTTP01, token); ok {
				w.Header().Set("Content-Type", "application/octet-stream")
				_, _ = io.WriteString(w, challenge.KeyAuthorization) // the client may have left
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

// ChallengeConfig returns the TLS configuration for a handshake of a TLS-ALPN-01 challenge. It
// returns nil for other handshakes, and for challenges that are not in progress.
func (m *Manager) ChallengeConfig(hello *tls.ClientHelloInfo) *tls.Config {
	if len(hello.SupportedProtos) != 1 || hello.SupportedProtos[0] != acmez.ACMETLS1Protocol {
		return nil
	}
	challenge, ok := m.challenges.find(acme.ChallengeTypeTLSALPN01, strings.ToLower(hello.ServerName))
	if !ok {
		return nil
	}
	cert, err := acmez.TLSALPN01ChallengeCert(challenge)
	if err != nil {
		return nil
	}
	return &tls.Config{Certificates: []tls.Certificate{*cert}, NextProtos: []string{acmez.ACMETLS1Protocol},
		MinVersion: tls.VersionTLS12, SessionTicketsDisabled: true}
}

// handshakeName returns the server name in the issuer's handshake for an identifier. For an IP
// address it is the name of its PTR record (RFC 8738, 6).
func handshakeName(identifier string) string {
	addr, err := netip.ParseAddr(identifier)
	if err != nil {
		return strings.ToLower(identifier)
	}
	if addr = addr.Unmap(); addr.Is4() {
		b := addr.As4()
		return fmt.Sprintf("%d.%d.%d.%d.in-addr.arpa", b[3], b[2], b[1], b[0])
	}
	var name strings.Builder
	b := addr.As16()
	for i := len(b) - 1; i >= 0; i-- {
		fmt.Fprintf(&name, "%x.%x.", b[i]&0xf, b[i]>>4)
	}
	return name.String() + "ip6.arpa"
}

// dnsSolver solves DNS-01.
type dnsSolver struct{ provider DNSProvider }

// Present implements acmez.Solver.
func (s dnsSolver) Present(ctx context.Context, c acme.Challenge) error {
	return s.provider.Present(ctx, c.DNS01TXTRecordName(), c.DNS01KeyAuthorization())
}

// CleanUp implements acmez.Solver.
func (s dnsSolver) CleanUp(ctx context.Context, c acme.Challenge) error {
	// the record is removed even if the order was canceled
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
	defer cancel()
	return s.provider.CleanUp(ctx, c.DNS01TXTRecordName(), c.DNS01KeyAuthorization())
}
