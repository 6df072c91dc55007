package nginxconf

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/crl"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/internal/keypair"
	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
)

// clientCertificates translates which client certificates a server accepts; nil requests none. The
// TLS handshake requests them, and names the authorities of ssl_client_certificate.
func (t *translator) clientCertificates(s *scope, config *tls.Config) *conf.ClientCerts {
	d := s.one("ssl_verify_client")
	if s.setting("ssl_verify_client", "off") == "" {
		return nil
	}
	c := &conf.ClientCerts{Mode: s.setting("ssl_verify_client", "on"), Depth: 1,
		Revocations: t.revocations(s, "ssl_crl")}
	// as in nginx a server without a certificate has no certificates of authorities either
	if s.one("ssl_client_certificate") == nil && c.Mode != "optional_no_ca" && s.one("ssl_certificate") != nil {
		t.errorf(d, "ssl_client_certificate is required to verify clients")
		return nil
	}
	if s.one("ssl_verify_depth") != nil {
		c.Depth = s.number("ssl_verify_depth", 0)
	}
	config.ClientAuth, config.ClientCAs = tls.RequestClientCert, x509.NewCertPool()
	for _, cert := range t.trusted(s.all("ssl_client_certificate")) {
		config.ClientCAs.AddCert(cert)
		c.Trusted = append(c.Trusted, cert)
	}
	c.Trusted = append(c.Trusted, t.trusted(s.all("ssl_trusted_certificate"))...)
	return c
}

func (t *translator) trusted(ds []*syntax.Directive) (all []*x509.Certificate) {
	for _, d := range ds {
		found, ok := t.pemBlocks(d, "CERTIFICATE", "X509 CERTIFICATE", "TRUSTED CERTIFICATE")
		if !ok {
			continue
		}
		n := len(all)
		for _, block := range found {
			if cert, err := x509.ParseCertificate(block); err == nil {
				all = append(all, cert)
			}
		}
		if len(all) == n {
			t.errorf(d, "no PEM certificate in %s", grammar.Quote(d.Args[0]))
		}
	}
	return all
}

// revocations reads the lists of revoked certificates in the file of ssl_crl, proxy_ssl_crl or
// grpc_ssl_crl; nil without the directive.
func (t *translator) revocations(s *scope, name string) (all []*x509.RevocationList) {
	d := s.one(name)
	if d == nil || d.Args[0] == "" {
		return nil
	}
	found, ok := t.pemBlocks(d, "X509 CRL")
	if !ok {
		return nil
	}
	for _, block := range found {
		list, err := crl.Parse(block)
		if err != nil {
			t.errorf(d, "%s: %v", grammar.Quote(d.Args[0]), err)
			return nil
		}
		all = append(all, list)
	}
	if all == nil {
		t.errorf(d, "no PEM revocation list in %s", grammar.Quote(d.Args[0]))
	}
	return all
}

// pemBlocks returns the contents of the PEM blocks of some types in the file that a directive
// names. After an error, which it reports, ok is false.
func (t *translator) pemBlocks(d *syntax.Directive, types ...string) (all [][]byte, ok bool) {
	if !t.plainFile(d) {
		return nil, false
	}
	b, err := t.read(d)
	if err != nil {
		return nil, false
	}
	if err := keypair.CheckPEM(b); err != nil {
		t.errorf(d, "%s: %v", grammar.Quote(d.Args[0]), err)
		return nil, false
	}
	for block, rest := pem.Decode(b); block != nil; block, rest = pem.Decode(rest) {
		if slices.Contains(types, block.Type) {
			all = append(all, block.Bytes)
		}
	}
	return all, true
}

const (
	// maxPasswords limits a file of passwords that is a named pipe.
	maxPasswords = 1 << 20
	// pipePatience is how long such a pipe may have no writer, and pipeInterval the time between
	// two attempts to read it.
	pipePatience = 10 * time.Second
	pipeInterval = 20 * time.Millisecond
)

// passwords returns the passwords in the file that a directive names, for keypair.Parse. A file is
// read once, since it may be a named pipe.
func (t *translator) passwords(s *scope, name string) string {
	d := s.one(name)
	if d == nil || !t.plainFile(d) {
		return ""
	}
	path := t.confPath(d.Args[0])
	text, known := t.passwordFiles[path]
	if known {
		return text
	}
	b, err := t.readPasswords(path)
	if err != nil {
		t.errorf(d, "%v", err)
	} else if text = keypair.Passwords(b); text == "" {
		t.warn(d, "no password in %s", grammar.Quote(d.Args[0]))
	}
	t.passwordFiles[path] = text
	return text
}

// readPasswords reads a file, or a named pipe as nginx's documentation suggests. Without a writer
// it gives up, so that a reload ends.
func (t *translator) readPasswords(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if t.source.FS != nil || err != nil || info.Mode().Type() != os.ModeNamedPipe {
		return t.source.Read(path)
	}
	pipe, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = pipe.Close() }() // it was only read
	until := time.Now().Add(pipePatience)
	if err := pipe.SetReadDeadline(until); err != nil {
		return nil, err
	}
	for {
		text, err := io.ReadAll(io.LimitReader(pipe, maxPasswords))
		switch {
		case len(text) > 0 && err == nil:
			return text, nil
		case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
			return nil, err
		case err != nil || time.Now().After(until):
			return nil, errors.New(path + ": nothing was written to this named pipe")
		}
		time.Sleep(pipeInterval)
	}
}

// ownCertificate reads the certificate for upstreams. With variables in the names of its files they
// are read for each connection.
func (t *translator) ownCertificate(s *scope, kind string, p *conf.Proxy, config *tls.Config) {
	d, key := s.one(kind+"_ssl_certificate"), s.one(kind+"_ssl_certificate_key")
	if d == nil || d.Args[0] == "" {
		return
	}
	if key == nil {
		t.errorf(d, "missing %s_ssl_certificate_key", kind)
		return
	}
	passwords := t.passwords(s, kind+"_ssl_password_file")
	if hasVariable(d.Args[0]) || hasVariable(key.Args[0]) {
		p.TLS.Cert, p.TLS.Key = t.text(d, d.Args[0]), t.text(key, key.Args[0])
		p.TLS.Dir, p.TLS.Passwords = t.confDir, passwords
		return
	}
	for _, d := range []*syntax.Directive{d, key} {
		if !t.plainFile(d) {
			return
		}
	}
	cert, err := t.read(d)
	if err != nil {
		return
	}
	secret, err := t.read(key)
	if err != nil {
		return
	}
	pair, err := keypair.Parse(cert, secret, passwords)
	if err != nil {
		t.errorf(d, "%v", err)
		return
	}
	config.Certificates = []tls.Certificate{pair}
}
