package acme

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// TestMain sees to it that no program outlives the tests.
func TestMain(m *testing.M) { os.Exit(testkit.Tests{M: m}.Run()) }

// quick are intervals for tests.
var quick = Timing{RetryMin: 50 * time.Millisecond, RetryMax: time.Second, MinAge: time.Millisecond,
	LockRetry: 20 * time.Millisecond, InfoMin: time.Millisecond}

// site is a machine whose challenges are validated: its HTTP and TLS servers use whichever Manager
// is the current one.
type site struct {
	testing.TB
	http, tls net.Listener
	// http6 and tls6 are the same ports of ::1; nil if they are not available.
	http6, tls6 net.Listener
	lines       *lines
	pebble      *programs.Pebble

	mu      sync.Mutex
	manager *Manager
	config  *conf.Config
}

// newSite starts the servers of a machine, and an ACME server that reaches them.
func newSite(t testing.TB, c programs.PebbleConfig) *site {
	t.Helper()
	s := newServers(t)
	s.startPebble(c)
	return s
}

func (s *site) startPebble(c programs.PebbleConfig) {
	s.Helper()
	c.HTTPPort, c.TLSPort = port(s.http), port(s.tls)
	s.pebble = programs.StartPebble(s, c)
}

// newIssuedSite is newSite, with a certificate for a.test that has been issued and is served.
func newIssuedSite(t testing.TB, c programs.PebbleConfig) (*site, *conf.Config, *x509.Certificate) {
	t.Helper()
	s := newSite(t, c)
	config := configOf("a.test", s.issuer(filepath.Join(t.TempDir(), "state")))
	s.run(config, Config{})
	s.awaitIssued(1)
	leaf := testkit.Value(s.handshake("a.test", s.pebble.Root(t, 0)))(t)
	return s, config, leaf
}

// newServers starts the servers of a machine.
func newServers(t testing.TB) *site {
	t.Helper()
	t.TempDir() // the first call makes the folders outlive the servers
	s := &site{TB: t, lines: new(lines)}
	s.http = testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	s.tls = testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	web := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m, _ := s.current()
		if m == nil {
			http.NotFound(w, r)
			return
		}
		m.Handler(http.NotFoundHandler()).ServeHTTP(w, r)
	})}
	config := &tls.Config{GetConfigForClient: s.configForClient}
	var served sync.WaitGroup
	served.Go(func() { _ = web.Serve(s.http) })
	served.Go(testkit.Accept(tls.NewListener(s.tls, config), handshakeAndWait))
	if s.http6, s.tls6 = listenIPv6(s.http), listenIPv6(s.tls); s.http6 != nil && s.tls6 != nil {
		served.Go(func() { _ = web.Serve(s.http6) })
		served.Go(testkit.Accept(tls.NewListener(s.tls6, config), handshakeAndWait))
	}
	t.Cleanup(func() {
		s.close()
		web.Close()
		for _, l := range []net.Listener{s.tls, s.http6, s.tls6} {
			if l != nil {
				l.Close()
			}
		}
		served.Wait()
		if t.Failed() {
			t.Log(s.lines.String())
		}
	})
	return s
}

// listenIPv6 listens on the same port of ::1. It returns nil if that fails.
func listenIPv6(l net.Listener) net.Listener {
	l6, err := net.Listen("tcp", fmt.Sprintf("[::1]:%d", port(l)))
	if err != nil {
		return nil
	}
	return l6
}

func (s *site) current() (*Manager, *conf.Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.manager, s.config
}

// configForClient returns the first certificate that has the name in the handshake.
func (s *site) configForClient(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	m, config := s.current()
	if m == nil {
		return &tls.Config{}, nil
	}
	if challenge := m.ChallengeConfig(hello); challenge != nil {
		return challenge, nil
	}
	for _, issued := range allIssued(config) {
		if slices.Contains(issued.Names, hello.ServerName) {
			return &tls.Config{GetCertificate: m.Lookup(config, issued).GetCertificate}, nil
		}
	}
	return &tls.Config{}, nil
}

func handshakeAndWait(_ int, c net.Conn) {
	_ = c.(*tls.Conn).Handshake()
	_, _ = c.Read(make([]byte, 1)) // until the client leaves
}

// run replaces the Manager by a new one, as a restart does, and starts it.
func (s *site) run(config *conf.Config, c Config) *Manager {
	s.Helper()
	s.close()
	c.Log = s.lines.add
	if c.Timing == (Timing{}) {
		c.Timing = quick
	}
	m := New(c)
	testkit.Must(s, m.Load(config, -1))
	s.mu.Lock()
	s.manager, s.config = m, config
	s.mu.Unlock()
	m.Start()
	return m
}

// close ends the Manager.
func (s *site) close() {
	s.mu.Lock()
	m := s.manager
	s.mu.Unlock()
	if m != nil {
		m.Close()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.manager = nil
}

// issuer returns an issuer that is the site's Pebble.
func (s *site) issuer(dir string) conf.Issuer {
	s.Helper()
	block, _ := pem.Decode(testkit.Value(os.ReadFile(s.pebble.CAFile))(s))
	ca := testkit.Value(x509.ParseCertificate(block.Bytes))(s)
	return conf.Issuer{Name: "pebble", Directory: s.pebble.Directory, Trusted: []*x509.Certificate{ca}, StateDir: dir,
		AcceptTerms: true}
}

// configOf returns a Config with issuers, and a host with a certificate of the first one.
func configOf(names string, issuers ...conf.Issuer) *conf.Config {
	return &conf.Config{Issuers: issuers, Hosts: []conf.Host{{Listen: []conf.Listen{{
		Addr: "*:443", TLS: true, Issued: &conf.Issued{Issuer: issuers[0].Name, Names: strings.Fields(names)},
	}}}}}
}

// handshake returns the leaf certificate that the site serves for a name. The chain is verified if
// root is not nil.
func (s *site) handshake(name string, root *x509.Certificate) (*x509.Certificate, error) {
	config := &tls.Config{ServerName: name, InsecureSkipVerify: root == nil}
	if root != nil {
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AddCert(root)
	}
	c, err := tls.Dial("tcp", s.tls.Addr().String(), config)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.ConnectionState().PeerCertificates[0], nil
}

// awaitIssued waits until the n-th certificate of this test has been issued and stored.
func (s *site) awaitIssued(n int) {
	s.Helper()
	s.lines.await(s, "has issued a certificate", n)
}

// lines is a log of lines with their times.
type lines struct{ testkit.Log }

func (l *lines) add(text string) { fmt.Fprintln(l, time.Now().Format("05.000"), text) }

// await waits until the log has n matches of a pattern.
func (l *lines) await(t testing.TB, pattern string, n int) {
	t.Helper()
	re := regexp.MustCompile(pattern)
	testkit.WaitFor(t, fmt.Sprintf("%d matches of %q", n, pattern),
		func() bool { return len(re.FindAllString(l.String(), n)) == n })
}

// count returns how often the log has a text.
func (l *lines) count(text string) int { return strings.Count(l.String(), text) }

// readFile returns the content of a file; nil if there is none.
func readFile(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return text
}

func port(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }
