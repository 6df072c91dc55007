package acme

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"path"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
)

// shortLived is an issuer of short-lived certificates and a machine that renews them, in a bubble of
// package synctest.
type shortLived struct {
	forger
	life time.Duration
	// fails handles requests when a certificate is older than half of its life, until some part of it.
	fails http.HandlerFunc
	until float64
	slept atomic.Int64 // nanoseconds: the clock went on, timers did not
	begun time.Time    // of the last certificate's life
	cert  *Certificate
}

// now returns the time of the machine's clock, which is also the issuer's.
func (s *shortLived) now() time.Time { return time.Now().Add(time.Duration(s.slept.Load())) }

// age returns the share of the current certificate's life that has passed; 0 without a certificate.
func (s *shortLived) age() float64 {
	current := s.cert.current.Load()
	if current == nil {
		return 0
	}
	return float64(s.now().Sub(current.Leaf.NotBefore)) / float64(s.life)
}

// ServeHTTP implements http.Handler.
func (s *shortLived) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if age := s.age(); s.fails != nil && 0.5 < age && age < s.until {
		s.fails(w, r)
		return
	}
	s.forger.ServeHTTP(w, r)
}

// start starts the issuer and the machine. The result ends them.
func (s *shortLived) start(t *testing.T) (end func()) {
	t.Helper()
	s.URL = "http://" + path.Base(t.Name()) + ".test"
	s.period = func(int) (notBefore, notAfter time.Time) {
		s.begun = s.now()
		return s.begun, s.begun.Add(s.life)
	}
	c, end := s.manage(t, s, conf.Issuer{Profile: "shortlived"},
		Config{Now: s.now, Log: func(text string) { t.Log(s.now().Format("02 15:04:05"), text) }})
	s.cert = c
	c.manager.Start()
	return end
}

// manage starts the issuer as a handler, and makes a Manager of a certificate of it, in a bubble of
// package synctest. end ends them.
func (f *forger) manage(t *testing.T, handler http.Handler, issuer conf.Issuer, c Config) (cert *Certificate, end func()) {
	t.Helper()
	network := new(testkit.Network)
	server := &http.Server{Handler: handler}
	l := network.Listen()
	go func() { _ = server.Serve(l) }()
	m := New(c)
	issuer.Name, issuer.Directory = "i", f.URL+"/dir"
	config := configOf("a.test", issuer)
	testkit.Must(t, m.Load(config, -1))
	cert = m.Lookup(config, config.Hosts[0].Listen[0].Issued)
	transport := cert.issuers[0].http.Transport.(issuerTransport).next
	transport.DialContext = func(context.Context, string, string) (net.Conn, error) { return network.Dial() }
	return cert, func() {
		m.Close()
		server.Close()
		time.Sleep(2 * requestTimeout) // until no handler hangs
	}
}

// advice returns a handler that advises to renew a certificate of some life between two parts of it.
func (s *shortLived) advice(from, to float64) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "21600")
		_ = json.NewEncoder(w).Encode(map[string]any{"suggestedWindow": map[string]time.Time{
			"start": s.begun.Add(scale(s.life, from)), "end": s.begun.Add(scale(s.life, to))}})
	}
}

// Certificates that live for days or an hour are renewed before they expire: if the issuer gives no
// advice, good or wrong advice; while it is away; and after the machine has slept. If it is away for
// longer, they are renewed soon afterwards. Each has a new key.
func TestShortLivedCertificatesAreRenewedInTime(t *testing.T) {
	unavailable := func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }
	for name, c := range map[string]struct {
		advise, fails func(*shortLived) http.HandlerFunc
		sleep         float64 // the machine sleeps at half of the life for this part of it
		away          float64 // the end of the outage; 0 is 0.9
		most          int     // certificates in a life; 0 is 3
	}{
		"no-advice": {},
		"half-life": {advise: func(s *shortLived) http.HandlerFunc { return s.advice(0.5, 0.52) }},
		// the time is drawn by lot: up to 4 certificates in a life were seen
		"any-time":    {advise: func(s *shortLived) http.HandlerFunc { return s.advice(0, 1) }, most: 6},
		"too-late":    {advise: func(s *shortLived) http.HandlerFunc { return s.advice(1.1, 30) }},
		"fails":       {advise: func(*shortLived) http.HandlerFunc { return unavailable }},
		"unavailable": {fails: func(*shortLived) http.HandlerFunc { return unavailable }},
		"limits": {fails: func(*shortLived) http.HandlerFunc {
			return (&limiter{after: "604800"}).ServeHTTP
		}},
		"hangs": {fails: func(*shortLived) http.HandlerFunc {
			return func(http.ResponseWriter, *http.Request) { time.Sleep(2 * requestTimeout) }
		}},
		"sleeps": {sleep: 0.45},
		"away":   {fails: func(*shortLived) http.HandlerFunc { return unavailable }, away: 4},
	} {
		for _, life := range []time.Duration{160 * time.Hour, time.Hour} {
			t.Run(fmt.Sprintf("%s-%s", name, life), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := &shortLived{life: life, until: max(c.away, 0.9)}
					if c.advise != nil {
						s.forger.advise = c.advise(s)
					}
					if c.fails != nil {
						s.fails = c.fails(s)
					}
					end := s.start(t)
					defer end()
					const lives, steps = 3, 500
					latest := max(0.99, c.away+1./20)
					for range lives * steps {
						time.Sleep(life / steps)
						synctest.Wait()
						if c.sleep > 0 && s.age() > 0.5 && s.age() < 0.6 {
							s.slept.Add(int64(scale(life, c.sleep)))
						} else if s.age() > latest || s.cert.current.Load() == nil {
							t.Fatal("the certificate is renewed late")
						}
					}
					testkit.Between(t, int(s.issued.Load()), 1, cmp.Or(c.most, 3)*lives, "certificates in", lives, "lifetimes")
				})
			})
		}
	}
}

// The profile of an order is one that the issuer's directory has at that time.
func TestProfileIsOneOfTheDirectory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shortLived{life: 160 * time.Hour}
		end := s.start(t)
		defer end()
		time.Sleep(s.life / 2)
		testkit.Equal(t, s.profile.Load(), "", "the profile of an issuer that has none")
		s.profiles.Store(`{"shortlived":""}`)
		time.Sleep(s.life / 2)
		testkit.Equal(t, s.profile.Load(), "shortlived", "profile")
	})
}
