package acme

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/tlstest"
)

// forger is an issuer that validates nothing and issues certificates of any period.
type forger struct {
	URL      string
	period   func(n int) (notBefore, notAfter time.Time) // of the n-th certificate, from 1; nil is 90 days from now
	profiles atomic.Value                                // the directory's, in JSON; none if it is empty
	advise   http.HandlerFunc                            // responds to requests for advice; nil supports none
	issued   atomic.Int64
	keys     sync.Map     // of certificates: each must be new
	profile  atomic.Value // of the last order, in JSON
	chain    atomic.Value // of the last certificate, in PEM
}

func newForger(t *testing.T) *forger {
	t.Helper()
	f := new(forger)
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	f.URL = server.URL
	return f
}

// ServeHTTP implements http.Handler.
func (f *forger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Replay-Nonce", fmt.Sprint(time.Now().UnixNano()))
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", f.URL+"/order")
	order := fmt.Sprintf(`{"status":%%q,"authorizations":[],"finalize":"%s/finalize","certificate":"%s/cert"}`, f.URL, f.URL)
	switch r.URL.Path {
	case "/dir":
		info, profiles := "", "{}"
		if f.advise != nil {
			info = f.URL + "/info"
		}
		if has := f.profiles.Load(); has != nil {
			profiles = has.(string)
		}
		fmt.Fprintf(w, `{"newNonce":"%[1]s/nonce","newAccount":"%[1]s/account","newOrder":"%[1]s/order",`+
			`"renewalInfo":%[2]q,"meta":{"profiles":%[3]s}}`, f.URL, info, profiles)
	case "/account":
		w.WriteHeader(http.StatusCreated)
		fmt.Fprint(w, `{"status":"valid"}`)
	case "/order":
		var request struct{ Profile string }
		if err := readJWS(r, &request); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		f.profile.Store(request.Profile)
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, order, "ready")
	case "/finalize":
		if err := f.issue(r); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		fmt.Fprintf(w, order, "valid")
	case "/cert":
		w.Header().Set("Content-Type", "application/pem-certificate-chain")
		_, _ = w.Write(f.chain.Load().([]byte))
	default:
		if f.advise != nil && strings.HasPrefix(r.URL.Path, "/info/") {
			f.advise(w, r)
		}
	}
}

// readJWS reads the payload of a request, without verifying its signature.
func readJWS(r *http.Request, payload any) error {
	var signed struct{ Payload string }
	if err := json.NewDecoder(r.Body).Decode(&signed); err != nil {
		return err
	}
	text, err := base64.RawURLEncoding.DecodeString(signed.Payload)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, payload)
}

// issue makes the certificate that a request requests.
func (f *forger) issue(r *http.Request) error {
	var request struct{ CSR string }
	if err := readJWS(r, &request); err != nil {
		return err
	}
	der, err := base64.RawURLEncoding.DecodeString(request.CSR)
	if err != nil {
		return err
	}
	csr, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return err
	}
	if _, twice := f.keys.LoadOrStore(string(csr.RawSubjectPublicKeyInfo), true); twice {
		return errors.New("the key of an earlier certificate")
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	n := f.issued.Add(1)
	template := &x509.Certificate{SerialNumber: big.NewInt(n), DNSNames: csr.DNSNames, AuthorityKeyId: []byte{1}}
	if template.NotBefore, template.NotAfter = time.Now(), time.Now().Add(90*24*time.Hour); f.period != nil {
		template.NotBefore, template.NotAfter = f.period(int(n))
	}
	if der, err = x509.CreateCertificate(rand.Reader, template, template, csr.PublicKey, key); err != nil {
		return err
	}
	f.chain.Store(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return nil
}

func TestExpiredCertificateDoesNotReplaceValidOne(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it waits for attempts")
	now := time.Now()
	f := newForger(t)
	f.period = func(n int) (notBefore, notAfter time.Time) {
		if n == 1 {
			return now.Add(-24 * time.Hour), now.Add(time.Hour) // renewed at once
		}
		return now.Add(-48 * time.Hour), now.Add(-24 * time.Hour)
	}
	s := newServers(t)
	s.run(configOf("a.test", conf.Issuer{Name: "forger", Directory: f.URL + "/dir",
		StateDir: filepath.Join(t.TempDir(), "state")}), Config{})
	s.lines.await(t, "acme: a.test: forger: the issuer returned an unusable certificate: valid from .* only", 1)
	s.lines.await(t, "acme: a.test: still serving the one valid until", 1)
	leaf, err := s.handshake("a.test", nil)
	testkit.Must(t, err)
	testkit.Equal(t, leaf.SerialNumber.Int64(), 1, "serial number")
}

// limiter is an issuer that limits the rate of all requests.
type limiter struct {
	requests atomic.Int64
	after    string // Retry-After
}

func (l *limiter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	base := "http://" + r.Host
	w.Header().Set("Replay-Nonce", fmt.Sprint(l.requests.Load()))
	switch r.URL.Path {
	case "/dir":
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"newNonce":"%s/nonce","newAccount":"%s/account","newOrder":"%s/order"}`, base, base, base)
	case "/nonce":
	default:
		l.requests.Add(1)
		w.Header().Set("Content-Type", "application/problem+json")
		w.Header().Set("Retry-After", l.after)
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, `{"type":"urn:ietf:params:acme:error:rateLimited","detail":"too many","status":429}`)
	}
}

// A rate limit of the issuer delays the next attempt, also after a restart. A limit that is not
// plausible does not count.
func TestRateLimitDelaysNextAttempt(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it waits for attempts")
	l := &limiter{after: "7200"}
	server := httptest.NewServer(l)
	defer server.Close()
	s := newServers(t)
	dir := filepath.Join(t.TempDir(), "state")
	config := configOf("a.test", conf.Issuer{Name: "limited", Directory: server.URL + "/dir", StateDir: dir})
	s.run(config, Config{})
	s.lines.await(t, "acme: a.test: limited: .*rateLimited - too many", 1)
	s.lines.await(t, "next attempt in 2h0m0s", 1)
	m := s.run(config, Config{})
	c := m.Lookup(config, config.Hosts[0].Listen[0].Issued)
	s.close() // c is no longer used
	testkit.Equal(t, l.requests.Load(), 1, "requests, also after the restart")
	if left := time.Until(c.retryAt); left < time.Hour || c.failures != 1 {
		t.Errorf("after a restart the next attempt is in %v, after %d failures", left, c.failures)
	}
	s.run(config, Config{Now: func() time.Time { return time.Now().Add(-365 * 24 * time.Hour) }})
	s.lines.await(t, "rateLimited - too many", 2)
}

// An issuer with a rate limit receives no request while it lasts, or for a quarter of the time that
// remains.
func TestRateLimitEndsBeforeTheCertificate(t *testing.T) {
	t.Parallel()
	l := &limiter{after: "604800"}
	limited := httptest.NewServer(l)
	defer limited.Close()
	now := time.Now()
	s := newServers(t)
	dir := t.TempDir()
	config := configOf("a.test", conf.Issuer{Name: "limited", Directory: limited.URL + "/dir", StateDir: dir})
	cert, key := tlstest.SelfSign(t, x509.Certificate{DNSNames: []string{"a.test"},
		NotBefore: now.Add(-65 * 24 * time.Hour), NotAfter: now.Add(25 * 24 * time.Hour)})
	name := filepath.Join(dir, fileName(config.Hosts[0].Listen[0].Issued)+".pem")
	testkit.Must(t, os.WriteFile(name, append(cert, key...), fileMode))
	s.run(config, Config{})
	s.lines.await(t, "acme: a.test: still serving .*; next attempt in 1[45].h", 1)
	testkit.Equal(t, l.requests.Load(), 1, "requests that the issuer received")
}

// An issuer that does not respond holds up its own orders only.
func TestSlowIssuerDoesNotDelayOthers(t *testing.T) {
	t.Parallel()
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/dir" { // acmez requests one directory after another
			fmt.Fprintf(w, `{"newNonce":"http://%[1]s/nonce","newOrder":"http://%[1]s/order"}`, r.Host)
			return
		}
		<-r.Context().Done()
	}))
	defer slow.Close()
	dir := t.TempDir()
	f := newForger(t)
	s := newServers(t)
	defer s.close() // which ends the requests that wait
	config := configOf("0.test", conf.Issuer{Name: "slow", Directory: slow.URL + "/dir", StateDir: filepath.Join(dir, "slow")},
		conf.Issuer{Name: "forger", Directory: f.URL + "/dir", StateDir: filepath.Join(dir, "forger")})
	for n := 1; n < maxOrders; n++ {
		config.Hosts = append(config.Hosts, configOf(fmt.Sprintf("%d.test", n), config.Issuers[0]).Hosts...)
	}
	m := s.run(config, Config{})
	testkit.WaitFor(t, "orders", func() bool { return len(m.stores[config.Issuers[0].StateDir].slots) == maxOrders })
	config.Hosts = append(config.Hosts, configOf("a.test", config.Issuers[1]).Hosts...)
	testkit.Must(t, m.Load(config, -1))
	m.Start()
	s.lines.await(t, "acme: a.test: forger has issued a certificate", 1)
}

// The text of an issuer is a short line in the log, without control characters.
func TestErrorTextsOfIssuersArePrintable(t *testing.T) {
	t.Parallel()
	garbage := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, strings.Repeat("\x1b[31m rubbish\r\n\x00\xff", 50_000), http.StatusForbidden)
	}))
	defer garbage.Close()
	s := newServers(t)
	s.run(configOf("a.test", conf.Issuer{Name: "garbage", Directory: garbage.URL, StateDir: t.TempDir()}), Config{})
	s.lines.await(t, "next attempt", 1)
	s.close()
	for line := range strings.Lines(s.lines.String()) {
		line = strings.TrimSuffix(line, "\n")
		if len(line) > maxLine+100 || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("a line of %d bytes: %.200q", len(line), line)
		}
	}
	testkit.Between(t, strings.Count(s.lines.String(), "\n"), 1, 50, "lines")
}

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
	c, end := s.manage(t, s, conf.Issuer{Profile: "shortlived", StateDir: t.TempDir()},
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
	transport := cert.issuer.transport.Transport
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
