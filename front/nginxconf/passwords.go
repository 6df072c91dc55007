package nginxconf

import (
	"crypto/tls"
	"errors"
	"io"
	"os"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/internal/keypair"
	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
)

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
	pipe, err := os.OpenFile(path, os.O_RDONLY|nonblock, 0)
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
