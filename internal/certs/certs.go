// Package certs serves a TLS certificate that is renewed while the server runs. If a renewed one is
// invalid, the old one stays in use, and that is logged.
package certs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

const (
	// maxFile limits the size of a file. A chain of a few certificates has some kilobytes.
	maxFile = 1 << 20
	// DefaultEvery is the interval at which files are checked for changes.
	DefaultEvery = time.Second
	// expiryWarning is the time before its expiry from which a certificate is reported.
	expiryWarning = 14 * 24 * time.Hour
)

// source is a file that can be read repeatedly.
type source interface {
	Read(limit int64) ([]byte, error)
	String() string
}

// Config selects the certificate and how it is watched.
type Config struct {
	// Cert holds the server's certificate and any intermediate certificates, and Key its key, in
	// PEM. They may be the same file.
	Cert, Key source

	// Parse parses the two files; nil is tls.X509KeyPair.
	Parse func(cert, key []byte) (tls.Certificate, error)

	// Every is the interval at which Watch checks the files. 0 is DefaultEvery.
	Every time.Duration

	// Log is called when the certificate is renewed, or cannot be, while Watch runs. It may be nil.
	// It must not block.
	Log func(text string)
}

// A Store holds the certificate that is served.
type Store struct {
	config  Config
	current atomic.Pointer[loaded]
}

// loaded is a certificate, with the checksum of its files.
type loaded struct {
	tls.Certificate
	sum [sha256.Size]byte
}

// Open reads the certificate.
func Open(config Config) (*Store, error) {
	if config.Every <= 0 {
		config.Every = DefaultEvery
	}
	if config.Log == nil {
		config.Log = func(string) {}
	}
	if config.Parse == nil {
		config.Parse = tls.X509KeyPair
	}
	s := &Store{config: config}
	text, err := s.read()
	if err == nil {
		err = s.setCurrent(text)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// GetCertificate returns the current certificate, for tls.Config.
func (s *Store) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return &s.current.Load().Certificate, nil
}

// Describe returns the names and the expiry date of the certificate, and a warning if it has
// expired or expires soon.
func (s *Store) Describe(now time.Time) string {
	leaf := s.current.Load().Leaf
	names := append([]string{}, leaf.DNSNames...)
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	if len(names) == 0 {
		names = append(names, leaf.Subject.CommonName)
	}
	text := fmt.Sprintf("%s, until %s", strings.Join(names, " "), leaf.NotAfter.Format(time.DateOnly))
	switch {
	case now.After(leaf.NotAfter):
		text += " (expired, renew it)"
	case now.Before(leaf.NotBefore):
		text += fmt.Sprintf(" (not valid before %s)", leaf.NotBefore.Format(time.DateTime))
	case leaf.NotAfter.Sub(now) < expiryWarning:
		text += " (expires soon)"
	}
	return text
}

// ExpiresSoon reports whether the certificate has expired or will soon.
func (s *Store) ExpiresSoon(now time.Time) bool {
	return s.current.Load().Leaf.NotAfter.Sub(now) < expiryWarning
}

// Reload reads the files again, and reports whether they have changed. If it fails, the old
// certificate stays in use.
func (s *Store) Reload() (changed bool, err error) {
	text, err := s.read()
	if err != nil {
		return false, err
	}
	if text.sum() == s.current.Load().sum {
		return false, nil
	}
	return true, s.setCurrent(text)
}

// Watch reloads the certificate when its files change, until ctx ends. It logs an error only if the
// error persists for two checks, because the two files are not replaced at the same time.
func (s *Store) Watch(ctx context.Context) {
	ticker := time.NewTicker(s.config.Every)
	defer ticker.Stop()
	var lastFault, reportedFault string // the error of the last check, and the error logged last
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		changed, err := s.Reload()
		fault := ""
		if err != nil {
			fault = err.Error()
		}
		switch {
		case changed && err == nil:
			s.config.Log("certificate: serving a new one: " + s.Describe(time.Now()))
		case fault != "" && fault == lastFault && fault != reportedFault:
			s.config.Log("certificate: still serving the old one: " + fault)
			reportedFault = fault
		case fault == "" && reportedFault != "":
			s.config.Log("certificate: the files again hold the one in use")
		}
		if lastFault = fault; fault == "" {
			reportedFault = ""
		}
	}
}

// pem is the content of the two files.
type pem struct{ cert, key []byte }

func (p pem) sum() [sha256.Size]byte {
	return sha256.Sum256(bytes.Join([][]byte{p.cert, p.key}, []byte{0}))
}

func (s *Store) read() (p pem, err error) {
	if p.cert, err = s.config.Cert.Read(maxFile); err != nil {
		return p, fmt.Errorf("certificate: %w", err)
	}
	if p.key, err = s.config.Key.Read(maxFile); err != nil {
		return p, fmt.Errorf("key: %w", err)
	}
	return p, nil
}

// setCurrent makes p the current certificate if it is a valid certificate with its key.
func (s *Store) setCurrent(p pem) error {
	pair, err := s.config.Parse(p.cert, p.key)
	if err != nil {
		return fmt.Errorf("%s and %s: %w", s.config.Cert, s.config.Key, trim(err))
	}
	s.current.Store(&loaded{pair, p.sum()})
	return nil
}

// trim removes the prefix of package tls from an error.
func trim(err error) error { return errors.New(strings.TrimPrefix(err.Error(), "tls: ")) }
