package http3_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/quic-go/quic-go"
	client "github.com/quic-go/quic-go/http3"

	"github.com/tarehq/tare/front/http3"
	"github.com/tarehq/tare/front/server"
	"github.com/tarehq/tare/internal/testkit"
)

// patience limits how long a test waits for an expected event.
const patience = time.Minute

// site is a running server.
type site struct {
	*testing.T
	dir   string
	addr  string // of TCP and UDP
	main  string // directives outside of http
	run   *server.Server
	ended <-chan error
	log   testkit.Log
}

// freeAddr returns an address whose port is free, for TCP and UDP. No client gets it before the
// server listens: systems take the ports of clients from 32768 on.
func freeAddr(t *testing.T) string {
	t.Helper()
	for range 100 {
		addr := fmt.Sprintf("127.0.0.1:%d", 20_000+rand.IntN(10_000))
		l, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		c, err := net.ListenPacket("udp", addr)
		l.Close()
		if err == nil {
			c.Close()
			return addr
		}
	}
	t.Fatal("no port is free")
	return ""
}

// serve starts a server. In the blocks of http, ADDR and OTHER stand for addresses, PORT for their
// port, and DIR for a folder.
func serve(t *testing.T, blocks string, bound ...server.Binding) *site {
	t.Helper()
	s := &site{T: t, dir: t.TempDir(), addr: freeAddr(t)}
	cert, key := testkit.SelfSign(t, x509.Certificate{DNSNames: []string{"localhost", "other.example"}})
	testkit.Must(t, os.WriteFile(filepath.Join(s.dir, "cert.pem"), append(cert, key...), 0o600))
	s.configure(blocks)
	ready := make(chan struct{}, 100) // as many as a test may reload
	s.run = server.New(server.File{Path: filepath.Join(s.dir, "nginx.conf")}, server.Options{
		Stdout: io.Discard, Stderr: &s.log, HTTP3: http3.New(), NoSignals: true,
		Ready: func() { ready <- struct{}{} },
	}, bound...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log:\n%s", s.log.String())
		}
	})
	s.ended = testkit.Run(t, s.run.Run, ready)
	return s
}

func (s *site) configure(blocks string) {
	s.Helper()
	text := "events {}\nerror_log stderr;\n" + s.main + "http { access_log off; ssl_certificate DIR/cert.pem;\n" +
		"ssl_certificate_key DIR/cert.pem;\n" + blocks + "}\n"
	text = strings.NewReplacer("DIR", s.dir, "ADDR", s.addr, "OTHER", s.otherAddr(), "PORT",
		s.addr[strings.LastIndexByte(s.addr, ':')+1:]).Replace(text)
	testkit.Must(s, os.WriteFile(filepath.Join(s.dir, "nginx.conf"), []byte(text), 0o600))
}

// otherAddr returns another address.
func (s *site) otherAddr() string { return strings.Replace(s.addr, "127.0.0.1", "127.0.0.2", 1) }

func (s *site) reload(blocks string) {
	s.Helper()
	s.configure(blocks)
	testkit.Must(s, s.run.Reload())
}

// clientTLS trusts any certificate.
func clientTLS() *tls.Config { return &tls.Config{InsecureSkipVerify: true, ServerName: "localhost"} }

// http3Client returns a client of HTTP/3. dialed counts its connections.
func (s *site) http3Client(o *quic.Config) (c *http.Client, dialed *testkit.Log) {
	dialed = new(testkit.Log)
	transport := &client.Transport{TLSClientConfig: clientTLS(), QUICConfig: o, DisableCompression: true}
	transport.Dial = func(ctx context.Context, addr string, t *tls.Config, q *quic.Config) (*quic.Conn, error) {
		fmt.Fprint(dialed, ".")
		return quic.DialAddrEarly(ctx, addr, t, q)
	}
	s.Cleanup(func() { transport.Close() })
	return &http.Client{Transport: transport, Timeout: patience, CheckRedirect: noRedirects}, dialed
}

func noRedirects(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

// http2Client returns a client of HTTP/2.
func (s *site) http2Client() *http.Client {
	transport := &http.Transport{TLSClientConfig: clientTLS(), ForceAttemptHTTP2: true, DisableCompression: true}
	s.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport, Timeout: patience, CheckRedirect: noRedirects}
}

// get requires a response with status 200 and returns its body.
func (s *site) get(c *http.Client, path string) string {
	s.Helper()
	return s.getFrom(c, s.addr, path)
}

// getFrom is get from an address.
func (s *site) getFrom(c *http.Client, addr, path string) string {
	s.Helper()
	resp := testkit.Value(c.Get("https://" + addr + path))(s)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		s.Fatalf("%s: %s, %v", path, resp.Status, err)
	}
	return string(b)
}
