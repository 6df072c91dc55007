// Package certs keeps a TLS certificate that is renewed while it is served. One that is replaced by
// rubbish stays in use, and somebody is told.
package certs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxFile bounds what is read of a file: a chain of a few certificates has some kilobytes.
	maxFile = 1 << 20
	// DefaultEvery is how often files are looked at for changes.
	DefaultEvery = time.Second
	// soon is how long before it ends a certificate is said to end soon.
	expiryWarning = 14 * 24 * time.Hour
)

// source is a file that can be read again.
type source interface {
	Read(limit int64) ([]byte, error)
	String() string
}

// Config says which certificate is served.
type Config struct {
	// Cert holds the server's certificate and those of whoever signed it, Key its key, in PEM. They may
	// be the same.
	Cert, Key source

	// Every is how often Watch looks at the files; 0 is DefaultEvery.
	Every time.Duration

	// Say is told what becomes of the certificate while Watch runs; nil for nobody. It must not wait.
	Log func(text string)
}

// A Store has the certificate that is served.
type Store struct {
	config  Config
	current atomic.Pointer[tls.Certificate]

	mu     sync.Mutex
	loaded [sha256.Size]byte // what the current certificate was made of
}

// Open reads the certificate.
func Open(config Config) (*Store, error) {
	if config.Every <= 0 {
		config.Every = DefaultEvery
	}
	if config.Log == nil {
		config.Log = func(string) {}
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

// GetCertificate is for tls.Config.
func (s *Store) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return s.current.Load(), nil
}

// Describe says whose the certificate is and until when, and warns if it has ended or soon will.
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
		text += ": it has ended, renew it"
	case now.Before(leaf.NotBefore):
		text += fmt.Sprintf(": it begins only on %s", leaf.NotBefore.Format(time.DateTime))
	case leaf.NotAfter.Sub(now) < expiryWarning:
		text += ": it ends soon"
	}
	return text
}

// Reload reads the files again. If there is an error the certificate stays what it was.
func (s *Store) Reload() (changed bool, err error) {
	text, err := s.read()
	if err != nil {
		return false, err
	}
	if text.sum() == s.sum() {
		return false, nil
	}
	return true, s.setCurrent(text)
}

// Watch reloads the certificate when its files change, until ctx ends. What cannot be used is told of once it has
// stayed so: the two files are not replaced at the same time.
func (s *Store) Watch(ctx context.Context) {
	ticker := time.NewTicker(s.config.Every)
	defer ticker.Stop()
	var lastFault, reportedFault string // what was wrong the last time, and what was told of
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
			s.config.Log("certificate: a new one is served: " + s.Describe(time.Now()))
		case fault != "" && fault == lastFault && fault != reportedFault:
			s.config.Log("certificate: the old one is served still: " + fault)
			reportedFault = fault
		case fault == "" && reportedFault != "":
			s.config.Log("certificate: the files hold the one that is served again")
		}
		if lastFault = fault; fault == "" {
			reportedFault = ""
		}
	}
}

// pem is what the two files hold.
type pem struct{ cert, key []byte }

func (p pem) sum() [sha256.Size]byte {
	return sha256.Sum256(bytes.Join([][]byte{p.cert, p.key}, []byte{0}))
}

func (s *Store) sum() [sha256.Size]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loaded
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

// use has p served, if it is a certificate and its key.
func (s *Store) setCurrent(p pem) error {
	pair, err := tls.X509KeyPair(p.cert, p.key)
	if err != nil {
		return fmt.Errorf("%s and %s: %w", s.config.Cert, s.config.Key, trim(err))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current.Store(&pair)
	s.loaded = p.sum()
	return nil
}

// trim takes the package's name from an error of package tls.
func trim(err error) error { return errors.New(strings.TrimPrefix(err.Error(), "tls: ")) }
