// Package cases is shared by the servers of the benchmarks in bench/. It has their handlers by
// path, and their command line.
package cases

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"io"
	"math/big"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/internal/application"
)

const (
	nap = 5 * time.Millisecond

	// hangsAfter is the number of requests that /hangs serves at once, like a cache. Each later
	// request waits for hang, as if an upstream had stopped.
	hangsAfter = 300
	hang       = 200 * time.Millisecond

	// perMicrosecond is the number of steps of burn that take about a microsecond. It is constant,
	// so that every server does the same work.
	perMicrosecond = 575

	// maxIdleConns limits the idle connections to the backend: more than are in use.
	maxIdleConns = 512
)

// Site is a server's handler with its listener.
type Site struct {
	Listener net.Listener
	TLS      *tls.Config // nil without TLS

	backend string
	client  http.Client
	burnt   atomic.Uint64
	served  atomic.Uint64 // requests for /hangs
}

// FromFlags parses the command line and listens.
func FromFlags() (*Site, error) {
	address := flag.String("listen", "", "address to listen on")
	overTLS := flag.Bool("tls", false, "serve HTTP over TLS")
	s := &Site{client: http.Client{Transport: &http.Transport{MaxIdleConns: maxIdleConns,
		MaxIdleConnsPerHost: maxIdleConns}}}
	flag.StringVar(&s.backend, "backend", "", "URL that /backend calls")
	flag.Parse()
	var err error
	if *overTLS {
		if s.TLS, err = selfSigned(); err != nil {
			return nil, err
		}
	}
	var listening net.ListenConfig
	listening.SetMultipathTCP(false) // as in nginx
	s.Listener, err = listening.Listen(context.Background(), "tcp", *address)
	return s, err
}

var errNoSuchPath = errors.New("no such path: want /hello, /sleep, /hangs, /burn30, /burn200 or /backend")

// Respond does the work of a path and returns the response's body.
func (s *Site) Respond(path string) (string, error) {
	switch path {
	case "/hello":
	case "/sleep":
		time.Sleep(nap)
	case "/hangs":
		if s.served.Add(1) > hangsAfter {
			time.Sleep(hang)
		}
	case "/burn30":
		s.burn(30)
	case "/burn200":
		s.burn(200)
	case "/backend":
		return s.callBackend()
	default:
		return "", errNoSuchPath
	}
	return application.Body, nil
}

// ServeHTTP implements http.Handler.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := s.Respond(r.URL.Path)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	_, _ = io.WriteString(w, body)
}

// burn uses about that many microseconds of CPU time. Each step needs the result of the one before.
func (s *Site) burn(microseconds int) {
	x := uint64(microseconds)
	for range microseconds * perMicrosecond {
		x = x*6364136223846793005 + 1442695040888963407
		x ^= x >> 29
	}
	if x == 0 { // never happens, but keeps the compiler from removing the loop
		s.burnt.Add(1)
	}
}

func (s *Site) callBackend() (string, error) {
	resp, err := s.client.Get(s.backend)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

// selfSigned returns a configuration for TLS 1.3 with a certificate of its own.
func selfSigned() (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		NextProtos:   []string{"http/1.1"},
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	}, nil
}
