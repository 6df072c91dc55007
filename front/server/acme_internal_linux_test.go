package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/acme"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// patience limits how long a test waits for an expected event.
const patience = time.Minute

// acmeSite is a Server whose certificates are issued by a Pebble.
type acmeSite struct {
	*testing.T
	server *Server
	pebble *programs.Pebble
	dir    string
	tls    string // address
	http   string
	ended  chan error

	output testkit.Log

	listeners []net.Listener
}

// await waits until the output has a text n times.
func (s *acmeSite) await(text string, n int) {
	s.Helper()
	for late := time.Now().Add(3 * patience); s.count(text) < n; time.Sleep(time.Millisecond) {
		if time.Now().After(late) || len(s.ended) > 0 {
			s.Fatalf("%q occurs %d times, want %d; the server has ended: %v", text, s.count(text), n, len(s.ended) > 0)
		}
	}
}

// newACME opens the addresses of a Server, and starts a Pebble that reaches them.
func newACME(t *testing.T, c programs.PebbleConfig) *acmeSite {
	t.Helper()
	s := &acmeSite{T: t, dir: t.TempDir(), ended: make(chan error, 1)}
	for range 2 {
		l := testkit.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
		s.listeners = append(s.listeners, l)
	}
	plain, secure := s.listeners[0].Addr(), s.listeners[1].Addr()
	s.http, s.tls = plain.String(), secure.String()
	c.HTTPPort, c.TLSPort = plain.(*net.TCPAddr).Port, secure.(*net.TCPAddr).Port
	s.pebble = programs.StartPebble(t, c)
	return s
}

// startACME starts a Server with the hosts nN.test.
func startACME(t *testing.T, hosts int, challenge string, c programs.PebbleConfig) *acmeSite {
	t.Helper()
	s := newACME(t, c)
	s.configure(hosts, challenge)
	s.start(File{Path: filepath.Join(s.dir, "nginx.conf")}, nil)
	return s
}

func (s *acmeSite) start(source Source, dns DNSProvider) {
	s.Helper()
	s.server = New(source, Options{Stdout: &s.output, Stderr: &s.output, Listeners: s.listeners, NoSignals: true, DNS: dns})
	s.server.acmeTiming = acme.Timing{RetryMin: 100 * time.Millisecond, MinAge: time.Millisecond,
		LockRetry: 50 * time.Millisecond}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		s.ended <- s.server.Run(ctx)
		close(s.ended)
	}()
	s.Cleanup(func() {
		cancel()
		testkit.Check(s, <-s.ended)
		if s.Failed() {
			s.Log(s.output.String())
		}
	})
	s.await("serving ", 1)
}

// configure writes nginx.conf with the hosts nN.test.
func (s *acmeSite) configure(hosts int, challenge string) {
	s.Helper()
	var b strings.Builder
	for n := range hosts {
		fmt.Fprintf(&b, "	server { listen %s ssl; server_name n%d.test; acme_certificate pebble; return 200 n%d; }\n", s.tls, n, n)
	}
	s.write(challenge, b.String())
}

// write writes nginx.conf. All requests over HTTP are redirected, after a password.
func (s *acmeSite) write(challenge, servers string) {
	s.Helper()
	text := fmt.Sprintf(`events {}
http {
	acme_issuer pebble {
		uri %s; ssl_trusted_certificate %s; state_path %s; accept_terms_of_service; challenge %s;
	}
	server { listen %s; auth_basic all; auth_basic_user_file /nonexistent; return 301 https://$host$request_uri; }
	ssl_certificate $acme_certificate;
	ssl_certificate_key $acme_certificate_key;
%s}
`, s.pebble.Directory, s.pebble.CAFile, filepath.Join(s.dir, "state"), challenge, s.http, servers)
	testkit.Must(s, os.WriteFile(filepath.Join(s.dir, "nginx.conf"), []byte(text), 0o600))
}

// handshake makes a handshake for a name, verified against root.
func (s *acmeSite) handshake(name string, root *x509.CertPool) error {
	dialer := &tls.Dialer{Config: &tls.Config{ServerName: name, RootCAs: root}}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := dialer.DialContext(ctx, "tcp", s.tls)
	if err != nil {
		return err
	}
	return c.Close()
}

func (s *acmeSite) roots() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(s.pebble.Root(s, 0))
	return pool
}

// A host's first certificate is issued although HTTP requests are redirected. HTTP is served
// before.
func TestCertificatesAreIssued(t *testing.T) {
	t.Parallel()
	for _, challenge := range []string{"http-01", "tls-alpn-01"} {
		t.Run(challenge, func(t *testing.T) {
			t.Parallel()
			s := startACME(t, 2, challenge, programs.PebbleConfig{})
			client := &http.Client{
				CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
				Transport:     &http.Transport{DisableKeepAlives: true}}
			resp, err := client.Get("http://" + s.http + "/.well-known/acme-challenge/other")
			if err != nil || resp.StatusCode != http.StatusMovedPermanently {
				t.Fatalf("HTTP: %v, %v", resp, err)
			}
			resp.Body.Close()
			s.await("has issued a certificate", 2)
			roots := s.roots()
			for _, name := range []string{"n0.test", "n1.test"} {
				testkit.Check(t, s.handshake(name, roots))
			}
			// a reload keeps what was issued, and issues what is new
			s.configure(3, challenge)
			testkit.Must(t, s.server.Reload())
			s.await("acme: n2.test: pebble has issued a certificate", 1)
			for _, name := range []string{"n0.test", "n1.test", "n2.test"} {
				testkit.Check(t, s.handshake(name, roots))
			}
			s.await("has issued a certificate", 3)
			s.configure(1, "unknown")
			testkit.Error(t, s.server.Reload(), "", "an invalid configuration was loaded")
			testkit.Check(t, s.handshake("n2.test", roots))
		})
	}
}

// A server without a name has a certificate for its IP address, with the profile for short lives.
// Its clients send no name in the handshake.
func TestCertificateForAnAddress(t *testing.T) {
	t.Parallel()
	for _, challenge := range []string{"http-01", "tls-alpn-01"} {
		t.Run(challenge, func(t *testing.T) {
			t.Parallel()
			const life = 160 * time.Hour
			s := newACME(t, programs.PebbleConfig{Profiles: map[string]time.Duration{"shortlived": life}})
			s.write(challenge+"; profile shortlived require", fmt.Sprintf(
				"	server { listen %s ssl; server_name 127.0.0.1; acme_certificate pebble; return 200; }\n", s.tls))
			s.start(File{Path: filepath.Join(s.dir, "nginx.conf")}, nil)
			s.await("acme: 127.0.0.1: pebble has issued a certificate", 1)
			c := testkit.Value(tls.Dial("tcp", s.tls, &tls.Config{ServerName: "127.0.0.1", RootCAs: s.roots()}))(t)
			defer c.Close()
			leaf := c.ConnectionState().PeerCertificates[0]
			testkit.Equal(t, leaf.NotAfter.Sub(leaf.NotBefore).Round(time.Minute), life, "lifetime")
		})
	}
}

// fault is the n-th fault of the issuer: nonces that it rejects (always), names that lead elsewhere
// until an order has failed, or an issuer that does not respond while clients make handshakes.
func (s *acmeSite) fault(n int, handshakes *atomic.Int64) {
	s.Helper()
	switch n % 3 {
	case 1:
		s.resolve("127.255.255.254")
		s.await("next attempt in", s.count("next attempt in")+1)
		s.resolve("127.0.0.1")
	case 2:
		s.pebble.Signal(s, syscall.SIGSTOP)
		defer s.pebble.Signal(s, syscall.SIGCONT)
		const more = 40 // a certificate expires 10 s after its renewal has begun
		for goal := handshakes.Load() + more; handshakes.Load() < goal && !s.Failed(); {
			time.Sleep(time.Millisecond)
		}
	}
}

func (s *acmeSite) resolve(address string) {
	s.Helper()
	testkit.Must(s, s.pebble.Resolve(address))
}

// count returns how often the output has a text.
func (s *acmeSite) count(text string) int { return strings.Count(s.output.String(), text) }

// Certificates are renewed under load, with faults of the issuer, and reloads meanwhile: no
// handshake fails.
func TestRenewalsLoseNoHandshake(t *testing.T) {
	t.Parallel()
	hosts, renewals := 2, 4
	pause := 20 * time.Millisecond // the test waits for times: at full speed it would slow others down
	if testkit.Slow() {
		hosts, renewals, pause = 20, 200, 0
	}
	s := startACME(t, hosts, "http-01", programs.PebbleConfig{Lifetime: 30 * time.Second, BadNonces: 10})
	for n := range hosts {
		s.await(fmt.Sprintf("acme: n%d.test: pebble has issued", n), 1)
	}
	roots := s.roots()
	done := make(chan struct{})
	var running sync.WaitGroup
	var handshakes atomic.Int64
	for worker := range 4 {
		running.Go(func() {
			for n := worker; ; n++ {
				select {
				case <-done:
					return
				case <-time.After(pause):
				}
				if err := s.handshake(fmt.Sprintf("n%d.test", n%hosts), roots); err != nil {
					t.Errorf("after %d handshakes: %v", handshakes.Load(), err)
					return
				}
				handshakes.Add(1)
			}
		})
	}
	for n := hosts + 1; n <= hosts+renewals && !t.Failed(); n += hosts {
		s.await("has issued a certificate", n)
		s.fault(n/hosts, &handshakes)
		testkit.Check(t, s.server.Reload())
	}
	s.await("has issued a certificate", hosts+renewals)
	close(done)
	running.Wait()
	t.Logf("%d renewals, %d failed attempts, %d handshakes, none failed", renewals, s.count("next attempt in"),
		handshakes.Load())
}

// A program without an nginx.conf has certificates for wildcards, which need records in DNS. An
// issuer whose challenge the program cannot solve is an error of the configuration.
func TestProgramSetsDNSRecords(t *testing.T) {
	t.Parallel()
	s := newACME(t, programs.PebbleConfig{})
	text := testkit.Value(os.ReadFile(s.pebble.CAFile))(t)
	block, _ := pem.Decode(text)
	ca := testkit.Value(x509.ParseCertificate(block.Bytes))(t)
	config := &Config{Name: "program", Front: conf.Config{
		Issuers: []conf.Issuer{{Name: "pebble", Directory: s.pebble.Directory, Trusted: []*x509.Certificate{ca},
			AcceptTerms: true, StateDir: filepath.Join(s.dir, "state"), Challenge: "dns-01"}},
		Hosts: []conf.Host{{Listen: []conf.Listen{{Addr: s.http}}}, {Listen: []conf.Listen{{Addr: s.tls, TLS: true,
			Issued: &conf.Issued{Issuer: "pebble", Names: []string{"a.test", "*.a.test"}}}}}},
	}}
	err := Check(config, Options{Stdout: &s.output, Stderr: &s.output})
	testkit.As[*ConfigError](t, err, "Options.DNS", "without a provider")
	s.start(config, s.pebble)
	s.await("acme: a.test *.a.test: pebble has issued a certificate", 1)
	for _, name := range []string{"a.test", "b.a.test"} {
		testkit.Equal(t, s.handshake(name, s.roots()), nil, name)
	}
}
