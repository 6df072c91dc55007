package acme

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// dnsRecords sets records of the DNS server that Pebble asks.
type dnsRecords struct{ *programs.Pebble }

func (r dnsRecords) Present(_ context.Context, name, value string) error {
	return r.SetTXT(name+".", value)
}

func (r dnsRecords) CleanUp(_ context.Context, name, _ string) error { return r.SetTXT(name+".", "") }

// The first certificate is issued by each challenge, for several names. Before it exists,
// handshakes are rejected by an alert; afterwards no file but what must be kept remains, and only
// the owner may read it.
func TestFirstCertificateIsIssued(t *testing.T) {
	t.Parallel()
	for challenge, names := range map[string]string{
		"http-01": "a.test b.a.test 127.0.0.1 ::1", "tls-alpn-01": "a.test c.a.test 127.0.0.1 ::1",
		"dns-01": "a.test *.a.test",
	} {
		t.Run(challenge, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, programs.PebbleConfig{})
			if s.http6 == nil || s.tls6 == nil {
				names = strings.TrimSuffix(names, " ::1")
			}
			dir := filepath.Join(t.TempDir(), "state")
			issuer := s.issuer(dir)
			issuer.Challenge, issuer.Contacts = challenge, []string{"mailto:admin@a.test"}
			config := configOf(names, issuer)
			block := make(chan struct{})
			var once bool
			m := s.run(config, Config{DNS: dnsRecords{s.pebble}, fault: func(string, string) error {
				if !once {
					once = true
					<-block // so that the order waits
				}
				return nil
			}})
			if _, err := s.handshake("a.test", nil); err == nil || !strings.Contains(err.Error(), "unrecognized name") {
				t.Errorf("before the certificate a handshake returns %v", err)
			}
			close(block)
			s.awaitIssued(1)
			leaf := testkit.Value(s.handshake("a.test", s.pebble.Root(t, 0)))(t)
			for _, name := range strings.Fields(names) {
				testkit.Check(t, leaf.VerifyHostname(strings.Replace(name, "*", "x", 1)))
			}
			m.Close()
			checkFiles(t, dir)
			if n := m.challenges.pending.Load(); n != 0 {
				t.Errorf("%d challenges remain", n)
			}
		})
	}
}

// checkFiles checks the files that remain after a certificate has been issued.
func checkFiles(t *testing.T, dir string) {
	t.Helper()
	entries := testkit.Value(os.ReadDir(dir))(t)
	var ends []string
	for _, e := range entries {
		info := testkit.Value(e.Info())(t)
		if info.Mode().Perm() != fileMode {
			t.Errorf("%s has mode %v", e.Name(), info.Mode())
		}
		ends = append(ends, strings.TrimPrefix(filepath.Ext(e.Name()), "."))
	}
	if slices.Sort(ends); !slices.Equal(ends, []string{"json", "key", "lock", "lock", "pem"}) {
		t.Errorf("the state has %v", entries)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != dirMode {
		t.Errorf("the directory has mode %v, %v", info.Mode(), err)
	}
}

// A restart orders nothing: neither a certificate nor an account.
func TestRestartOrdersNothing(t *testing.T) {
	t.Parallel()
	s, config, before := newIssuedSite(t, programs.PebbleConfig{})
	s.close()
	s.pebble.Stop(t)
	s.run(config, Config{})
	s.lines.await(t, "certificate valid until .*, renewal about", 1)
	if after, err := s.handshake("a.test", nil); err != nil || !after.Equal(before) {
		t.Errorf("after a restart another certificate, %v", err)
	}
}

// An issuer that advises to renew at once, as after a mass revocation, is obeyed at the next start.
func TestAdviceToRenewNowIsObeyed(t *testing.T) {
	t.Parallel()
	s, config, before := newIssuedSite(t, programs.PebbleConfig{})
	s.close()
	s.pebble.SetRenewalInfo(t, before, time.Now().Add(-time.Hour), time.Now().Add(-time.Minute))
	s.run(config, Config{})
	s.awaitIssued(2)
	if after, err := s.handshake("a.test", nil); err != nil || after.Equal(before) {
		t.Errorf("the certificate was not renewed, %v", err)
	}
}

// An account is bound to an external one by a key in the configuration or a file, which need not be
// readable any more when the configuration is loaded again. A wrong key is an error that says so.
func TestExternalAccountIsBound(t *testing.T) {
	t.Parallel()
	const key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W"
	s := newSite(t, programs.PebbleConfig{ExternalKeys: map[string]string{"kid-1": key}})
	dir := t.TempDir()
	file := filepath.Join(dir, "mac.key")
	testkit.Must(t, os.WriteFile(file, []byte(key+"\n"), 0o600))
	issuer := s.issuer(filepath.Join(dir, "wrong"))
	issuer.ExternalAccount, issuer.ExternalKey = "kid-1", "AAAA"+key[4:]
	s.run(configOf("a.test", issuer), Config{})
	s.lines.await(t, "acme: a.test: pebble: account: .*", 1)
	issuer.ExternalKey, issuer.ExternalKeyFile = "", file
	issuer.StateDir = filepath.Join(dir, "right")
	s.run(configOf("a.test", issuer), Config{})
	s.awaitIssued(1)
}

func TestFallbackIssues(t *testing.T) {
	t.Parallel()
	s := newSite(t, programs.PebbleConfig{})
	dir := t.TempDir()
	broken := s.issuer(filepath.Join(dir, "broken"))
	broken.Name, broken.Directory, broken.Fallback = "broken", "https://"+programs.FreeAddresses(t, 1)[0]+"/dir", "pebble"
	s.run(configOf("a.test", broken, s.issuer(filepath.Join(dir, "pebble"))), Config{})
	s.lines.await(t, "acme: a.test: broken: .*connection refused", 1)
	s.lines.await(t, "acme: a.test: pebble has issued a certificate", 1)
	if _, err := s.handshake("a.test", s.pebble.Root(t, 0)); err != nil {
		t.Error(err)
	}
}

// A fallback is not used while there is time to try the first issuer again.
func TestFallbackWaitsWhileThereIsTime(t *testing.T) {
	now := time.Now()
	c := &Certificate{manager: New(Config{}), issuers: []*issuer{{}, {}}}
	if n := len(c.candidates()); n != 2 {
		t.Errorf("without a certificate %d issuers", n)
	}
	leaf := &x509.Certificate{NotBefore: now.Add(-60 * time.Hour), NotAfter: now.Add(30 * time.Hour)}
	held := &certificate{}
	held.Leaf = leaf
	c.current.Store(held)
	if n := len(c.candidates()); n != 1 {
		t.Errorf("with a third of the lifetime %d issuers", n)
	}
	c.failures = 2
	if n := len(c.candidates()); n != 2 {
		t.Errorf("after two failures %d issuers", n)
	}
	c.failures, leaf.NotAfter = 0, now.Add(5*time.Hour)
	if n := len(c.candidates()); n != 2 {
		t.Errorf("shortly before the end %d issuers", n)
	}
}

// Types of keys, profiles and chains are those of the configuration.
func TestKeysProfilesAndChainsAreConfigured(t *testing.T) {
	t.Parallel()
	s := newSite(t, programs.PebbleConfig{Roots: 1, Profiles: map[string]time.Duration{"short": 10 * time.Hour}})
	dir := t.TempDir()
	issuer := s.issuer(filepath.Join(dir, "one"))
	issuer.AccountKey, issuer.Profile, issuer.RequireProfile = "ecdsa:384", "short", true
	issuer.PreferredChain = s.pebble.Root(t, 1).Subject.CommonName
	config := configOf("a.test", issuer)
	config.Hosts[0].Listen[0].Issued.Key = "rsa:2048"
	s.run(config, Config{})
	s.awaitIssued(1)
	leaf := testkit.Value(s.handshake("a.test", s.pebble.Root(t, 1)))(t)
	testkit.Equal(t, leaf.PublicKeyAlgorithm, x509.RSA, "key")
	testkit.Equal(t, leaf.NotAfter.Sub(leaf.NotBefore).Round(time.Minute), 10*time.Hour, "lifetime")
	issuer.StateDir, issuer.Profile = filepath.Join(dir, "two"), "none"
	s.run(configOf("a.test", issuer), Config{})
	s.lines.await(t, `acme: a.test: pebble: the issuer has no profile "none" \(it has: default, short\)`, 1)
	issuer.RequireProfile = false
	s.run(configOf("a.test", issuer), Config{})
	s.lines.await(t, `no profile "none" \(it has: default, short\): its default is used`, 1)
	s.awaitIssued(2)
}

// Without a directory the state lasts as long as the Manager, also if the configuration changes.
func TestStateInMemorySurvivesReload(t *testing.T) {
	t.Parallel()
	s := newSite(t, programs.PebbleConfig{})
	config := configOf("a.test", s.issuer(""))
	m := s.run(config, Config{})
	s.awaitIssued(1)
	changed := configOf("a.test", s.issuer(""))
	changed.Issuers[0].PreferredChain = "X"
	testkit.Must(t, m.Load(changed, -1))
	m.Retain(changed)
	m.Start()
	if m.Lookup(config, config.Hosts[0].Listen[0].Issued) != nil {
		t.Error("the old certificate is still managed")
	}
	cert, err := m.Lookup(changed, changed.Hosts[0].Listen[0].Issued).GetCertificate(nil)
	if cert == nil || err != nil {
		t.Errorf("no certificate after the change, %v", err)
	}
}

// An order that is in progress when the Manager closes ends at once, and is no failure.
func TestCloseEndsAnOrder(t *testing.T) {
	t.Parallel()
	hangs := listenLocal(t)
	defer hangs.Close()
	accepted := make(chan net.Conn, 10)
	go func() {
		for {
			c, err := hangs.Accept()
			if err != nil {
				close(accepted)
				return
			}
			accepted <- c
		}
	}()
	s := newServers(t)
	issuer := conf.Issuer{Name: "hangs", Directory: "http://" + hangs.Addr().String() + "/", StateDir: t.TempDir()}
	s.run(configOf("a.test", issuer), Config{})
	c := <-accepted
	s.close()
	c.Close()
	if n := s.lines.count("next attempt"); n != 0 {
		t.Error("the end counts as a failure")
	}
}

// Requests for other paths and tokens, and other methods, reach the next handler.
func TestOnlyChallengesAreTaken(t *testing.T) {
	m := New(Config{})
	m.challenges.change(func() { m.challenges.tokens["abc"] = "abc.thumb" })
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	for _, c := range []struct {
		method, path string
		taken        bool
	}{
		{"GET", httpPrefix + "abc", true}, {"HEAD", httpPrefix + "abc", true}, {"POST", httpPrefix + "abc", false},
		{"GET", httpPrefix + "abd", false}, {"GET", httpPrefix, false}, {"GET", "/abc", false},
		{"GET", httpPrefix + "abc/", false},
	} {
		w := &recorder{header: make(http.Header)}
		r := testkit.Value(http.NewRequest(c.method, "http://a.test"+c.path, nil))(t)
		m.Handler(next).ServeHTTP(w, r)
		if taken := w.status != http.StatusTeapot; taken != c.taken || taken && w.body != "abc.thumb" {
			t.Errorf("%s %s: %d %q", c.method, c.path, w.status, w.body)
		}
	}
}

// recorder is a ResponseWriter.
type recorder struct {
	header http.Header
	status int
	body   string
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(b []byte) (int, error) { r.body += string(b); return len(b), nil }

// IP addresses have the names of RFC 8738 in handshakes.
func TestHandshakeNames(t *testing.T) {
	for identifier, want := range map[string]string{
		"A.test": "a.test", "192.0.2.1": "1.2.0.192.in-addr.arpa",
		"2001:db8::1": "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa",
	} {
		testkit.Equal(t, handshakeName(identifier), want, identifier)
	}
}

// A configuration that cannot work is an error before anything is ordered.
func TestCheckFindsMistakes(t *testing.T) {
	good := conf.Issuer{Name: "i", Directory: "https://ca.test/"}
	with := func(change func(*conf.Issuer)) conf.Issuer {
		i := good
		change(&i)
		return i
	}
	for want, config := range map[string]*conf.Config{
		"invalid uri":            configOf("a.test", with(func(i *conf.Issuer) { i.Directory = "ftp://x" })),
		"server.Options.DNS":     configOf("a.test", with(func(i *conf.Issuer) { i.Challenge = "dns-01" })),
		"unknown challenge":      configOf("a.test", with(func(i *conf.Issuer) { i.Challenge = "x" })),
		"unknown issuer \"k\"":   configOf("a.test", with(func(i *conf.Issuer) { i.Fallback = "k" })),
		"leads back":             configOf("a.test", with(func(i *conf.Issuer) { i.Fallback = "i" })),
		"requires the challenge": configOf("*.a.test", good), "not a DNS name": configOf("a..test", good),
		"zone":     configOf("fe80::1%eth0", good),
		"no names": configOf("", good), "duplicate issuer": configOf("a.test", good, good),
		"is also that of": configOf("a.test", with(func(i *conf.Issuer) { i.StateDir = "/x" }),
			conf.Issuer{Name: "j", Directory: good.Directory, StateDir: "/x"}),
		"no such file": configOf("a.test", with(func(i *conf.Issuer) { i.AccountKeyFile = "/nonexistent/key" })),
	} {
		testkit.Error(t, New(Config{}).Check(config), want)
	}
	testkit.Check(t, New(Config{}).Check(configOf("a.test 10.0.0.1 ::1 xn--x", good)))
	dns := configOf("::1", with(func(i *conf.Issuer) { i.Challenge = "dns-01" }))
	testkit.Error(t, New(Config{DNS: dnsRecords{}}).Check(dns), "an IP address", "dns-01 for an address")
}

// Keys are not stored where other users could replace them, or in a file that others can read.
func TestKeysStayOutOfDirectoriesOfOthers(t *testing.T) {
	dir := t.TempDir()
	temporary := filepath.Join(dir, ".key.new")
	testkit.Must(t, os.WriteFile(temporary, nil, 0o600))
	testkit.Must(t, os.Chmod(temporary, 0o666))
	testkit.Must(t, newStore(dir).write("key", []byte("secret")))
	if info, err := os.Stat(filepath.Join(dir, "key")); err != nil || info.Mode() != fileMode {
		t.Errorf("%v, %v", info, err)
	}
	config := configOf("a.test", conf.Issuer{Name: "i", Directory: "https://ca.test/", StateDir: dir, Pos: "nginx.conf:3"})
	check := func(want string) {
		t.Helper()
		err := New(Config{}).Load(config, -1)
		testkit.Error(t, err, "nginx.conf:3: acme_issuer i: state_path: "+dir+": "+want)
	}
	testkit.Must(t, os.Chmod(dir, 0o777))
	check("all users may write to it")
	if os.Geteuid() != 0 {
		return
	}
	testkit.Must(t, os.Chmod(dir, 0o700))
	testkit.Must(t, os.Chown(dir, 64123, -1))
	check("user 64123 owns it")
}

// A directory with files of others is not given to the user that will serve.
func TestDirectoriesOfOthersAreNotGivenAway(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives directories to users")
	}
	const uid = 64123
	dir := t.TempDir()
	config := configOf("a.test", conf.Issuer{Name: "i", Directory: "https://ca.test/", StateDir: dir, Pos: "nginx.conf:3"})
	for _, name := range []string{"account.key", "x.pem.invalid", ".x.json.new", "account.lock"} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	owner := func() uint32 {
		info := testkit.Value(os.Stat(dir))(t)
		return info.Sys().(*syscall.Stat_t).Uid
	}
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "passwd"), nil, 0o600))
	err := New(Config{}).Load(config, uid)
	if want := "nginx.conf:3: acme_issuer i: state_path: " + dir + ` has other files, such as "passwd"`; err == nil ||
		!strings.HasPrefix(err.Error(), want) || owner() == uid {
		t.Errorf("%v, owner %d", err, owner())
	}
	testkit.Must(t, os.Remove(filepath.Join(dir, "passwd")))
	if err := New(Config{}).Load(config, uid); err != nil || owner() != uid {
		t.Errorf("%v, owner %d", err, owner())
	}
}

// A key that is written where the name of a file belongs does not appear in the error.
func TestExternalKeyIsNotPrinted(t *testing.T) {
	for _, key := range []string{"c2VjcmV0", strings.Repeat("c2VjcmV0", 1000)} {
		issuer := conf.Issuer{Name: "i", Directory: "https://ca.test/", StateDir: t.TempDir(),
			ExternalAccount: "kid", ExternalKeyFile: "/etc/nginx/" + key}
		err := New(Config{}).Check(configOf("a.test", issuer))
		if err == nil || strings.Contains(err.Error(), "c2VjcmV0") || !strings.Contains(err.Error(), "data:KEY") {
			t.Errorf("%v", err)
		}
	}
}

// Certificates that share names are ordered at the same time. The issuer's handshakes for
// TLS-ALPN-01 have only the name, and yet each order succeeds at its first attempt.
func TestCertificatesShareNamesOfTLSALPN(t *testing.T) {
	t.Parallel()
	s := newSite(t, programs.PebbleConfig{})
	issuer := s.issuer(filepath.Join(t.TempDir(), "state"))
	issuer.Challenge = "tls-alpn-01"
	config := configOf("a.test b.test", issuer)
	for _, names := range [][]string{{"b.test", "a.test", "c.test"}, {"b.test"}, {"c.test", "a.test"}} {
		config.Hosts = append(config.Hosts, conf.Host{Listen: []conf.Listen{{Addr: "*:443", TLS: true,
			Issued: &conf.Issued{Issuer: issuer.Name, Names: names}}}})
	}
	s.run(config, Config{})
	s.awaitIssued(4)
	if n := s.lines.count("next attempt"); n > 0 {
		t.Errorf("%d orders failed:\n%s", n, s.lines.text())
	}
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

// age returns which part of the current certificate's life has passed; 0 if there is none.
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
	network := new(testkit.Network)
	server := &http.Server{Handler: s}
	l := network.Listen()
	go func() { _ = server.Serve(l) }()
	m := New(Config{Now: s.now, Log: func(text string) { t.Log(s.now().Format("02 15:04:05"), text) }})
	config := configOf("a.test", conf.Issuer{Name: "i", Directory: s.URL + "/dir", Profile: "shortlived"})
	testkit.Must(t, m.Load(config, -1))
	s.cert = m.Lookup(config, config.Hosts[0].Listen[0].Issued)
	transport := s.cert.issuers[0].http.Transport.(issuerTransport).next
	transport.DialContext = func(context.Context, string, string) (net.Conn, error) { return network.Dial() }
	m.Start()
	return func() {
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
		// the time is drawn by lot: 9 to 21 certificates in 5 lives were seen
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
					const lives, steps = 5, 500
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
					if n := s.issued.Load(); int(n) > cmp.Or(c.most, 3)*lives {
						t.Errorf("%d certificates in %d lifetimes", n, lives)
					}
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
		if p := s.profile.Load(); p != "" {
			t.Errorf("profile %s although the issuer has none", p)
		}
		s.profiles = `{"shortlived":""}`
		time.Sleep(s.life / 2)
		if p := s.profile.Load(); p != "shortlived" {
			t.Errorf("profile %s, although the issuer has another one", p)
		}
	})
}
