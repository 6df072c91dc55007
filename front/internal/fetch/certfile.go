package fetch

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/tarehq/tare/front/internal/keypair"
)

// maxCertFile limits the size of a certificate's file.
const maxCertFile = 1 << 20

// Identity is what connections by TLS differ in: the name that the server's certificate is
// verified for, the files of the own certificate and its key, empty for none, and the local
// address.
type Identity struct {
	Name, Cert, Key string
	Local           netip.AddrPort
}

// certFile is a certificate whose files are named by variables. A handshake reads them again if
// they have changed.
type certFile struct {
	cert, key, passwords string

	mu      sync.Mutex
	current *tls.Certificate
	stamp   [2]fileStamp
}

// fileStamp changes when a file does.
type fileStamp struct {
	modified time.Time
	size     int64
}

// certFile opens the certificate of an Identity; nil if it has none.
func (t *TLS) certFile(id Identity) (*certFile, error) {
	if id.Cert == "" {
		return nil, nil
	}
	c := &certFile{cert: t.path(id.Cert), key: t.path(id.Key), passwords: t.from.Passwords}
	return c, c.read()
}

func (t *TLS) path(name string) string {
	if filepath.IsAbs(name) {
		return name
	}
	return filepath.Join(t.from.Dir, name)
}

// certificate returns the certificate for a handshake. If the files are not readable any more it
// returns the last one.
func (c *certFile) certificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cert, err := statCertFile(c.cert); err == nil {
		if key, err := statCertFile(c.key); err == nil && [2]fileStamp{cert, key} != c.stamp {
			_ = c.read() // the next handshake tries again
		}
	}
	return c.current, nil
}

// read reads the files.
func (c *certFile) read() error {
	var texts [2][]byte
	var stamps [2]fileStamp
	for i, name := range [2]string{c.cert, c.key} {
		var err error
		if stamps[i], err = statCertFile(name); err != nil {
			return err
		}
		if texts[i], err = readCertFile(name); err != nil {
			return err
		}
	}
	pair, err := keypair.Parse(texts[0], texts[1], c.passwords)
	if err != nil {
		return fmt.Errorf("%s and %s: %w", c.cert, c.key, err)
	}
	c.current, c.stamp = &pair, stamps
	return nil
}

// statCertFile returns the stamp of a file, which must be a regular one: a client may choose its
// name, and must not make the server wait.
func statCertFile(name string) (fileStamp, error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return fileStamp{}, err
	case !info.Mode().IsRegular():
		return fileStamp{}, errors.New(name + ": not a regular file")
	case info.Size() == 0: // as some files of the kernel, which never end, such as /proc/kmsg
		return fileStamp{}, errors.New(name + ": the file is empty")
	}
	return fileStamp{info.ModTime(), info.Size()}, nil
}

func readCertFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	return io.ReadAll(io.LimitReader(f, maxCertFile))
}
