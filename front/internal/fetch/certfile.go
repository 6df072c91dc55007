package fetch

import (
	"crypto/tls"
	"errors"
	"io"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/tarehq/tare/front/internal/keypair"
	"github.com/tarehq/tare/internal/certs"
)

// Identity is what connections differ in: the local address, whether they use TLS, and with TLS the
// name that the server's certificate is verified for, and the files of the own certificate and its
// key, empty for none.
type Identity struct {
	Local           netip.AddrPort
	UsesTLS         bool
	Name, Cert, Key string
}

// certificate opens the certificate of an Identity, whose files are named by variables; nil if it has
// none.
func (p *Pool) certificate(id Identity) (*certs.Store, error) {
	if id.Cert == "" {
		return nil, nil
	}
	return certs.Open(certs.Config{Cert: p.certFile(id.Cert), Key: p.certFile(id.Key),
		Parse: func(cert, key []byte) (tls.Certificate, error) {
			return keypair.Parse(cert, key, p.from.Passwords)
		}})
}

func (p *Pool) certFile(name string) certFile {
	if filepath.IsAbs(name) {
		return certFile(name)
	}
	return certFile(filepath.Join(p.from.Dir, name))
}

type certFile string

// Read reads up to limit bytes. The file must be a regular one: a client may choose its name, and must
// not make the server wait.
func (f certFile) Read(limit int64) ([]byte, error) {
	info, err := os.Stat(string(f))
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New(string(f) + ": not a regular file")
	case info.Size() == 0: // such as /proc/kmsg, which never ends
		return nil, errors.New(string(f) + ": the file is empty")
	}
	file, err := os.Open(string(f))
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	return io.ReadAll(io.LimitReader(file, limit))
}

func (f certFile) String() string { return string(f) }
