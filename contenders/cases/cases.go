// Package cases is what the servers of the benchmarks in bench/ have in common: what a
// request costs its handler, by path, and how a server is started.
package cases

import (
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

	"github.com/tarehq/tare/contenders/application"
)

const (
	nap = 5 * time.Millisecond

	// hangsAfter is how many requests /hangs serves at once, as from a cache. Each later one takes
	// hang, as when what is behind it has stopped.
	hangsAfter = 300
	hang       = 200 * time.Millisecond

	// perMicrosecond is how many steps of burn take about a microsecond. It is fixed,
	// so that every server does the same work, whatever its clock says.
	perMicrosecond = 575

	// kept is how many connections to the backend are kept: more than are in use.
	kept = 512
)

// Site is what a server of cases serves, and where.
type Site struct {
	Listener net.Listener
	TLS      *tls.Config // nil without TLS

	backend string
	client  http.Client
	burnt   atomic.Uint64
	served  atomic.Uint64 // requests for /hangs
}

// FromFlags makes a site as the command line says.
func FromFlags() (*Site, error) {
	address := flag.String("listen", "", "address to listen on")
	overTLS := flag.Bool("tls", false, "speak TLS")
	s := &Site{client: http.Client{Transport: &http.Transport{MaxIdleConns: kept, MaxIdleConnsPerHost: kept}}}
	flag.StringVar(&s.backend, "backend", "", "URL that /backend calls")
	flag.Parse()
	var err error
	if *overTLS {
		if s.TLS, err = selfSigned(); err != nil {
			return nil, err
		}
	}
	s.Listener, err = net.Listen("tcp", *address)
	return s, err
}

var errNoSuchPath = errors.New("no such path: want /hello, /sleep, /hangs, /burn30, /burn200 or /backend")

// Answer does what a path stands for and returns the body of the answer.
func (s *Site) Answer(path string) (string, error) {
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

// ServeHTTP answers for net/http and what is compatible with it.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := s.Answer(r.URL.Path)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain")
	_, _ = io.WriteString(w, body)
}

// burn takes about so many microseconds of processor time. Each step needs the result
// of the one before.
func (s *Site) burn(microseconds int) {
	x := uint64(microseconds)
	for range microseconds * perMicrosecond {
		x = x*6364136223846793005 + 1442695040888963407
		x ^= x >> 29
	}
	if x == 0 { // which the compiler cannot exclude
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
