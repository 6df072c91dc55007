package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/keypair"
	"github.com/tarehq/tare/front/internal/places"
	"github.com/tarehq/tare/internal/acme"
	"github.com/tarehq/tare/internal/anchor"
	"github.com/tarehq/tare/internal/certs"
)

// maxDescribed is the number of certificates up to which all are described when they are loaded.
const maxDescribed = 4

// certStore holds the certificates named by hosts, each once.
type certStore struct {
	get      func(*tls.ClientHelloInfo) (*tls.Certificate, error) // Options.GetCertificate, or nil
	issued   *acme.Manager                                        // certificates that no files are named for
	served   map[conf.CertFiles]*servedCert
	sessions sessionCaches
	isSingle bool // messages need not name the certificate
	running  sync.WaitGroup
}

type servedCert struct {
	store *certs.Store
	files []*anchor.File
	stop  context.CancelFunc // nil unless its files are watched
}

// certFilesOf visits the files that hosts name.
func certFilesOf(config *conf.Config) iter.Seq2[*conf.Host, conf.CertFiles] {
	return func(yield func(*conf.Host, conf.CertFiles) bool) {
		for i := range config.Hosts {
			for _, l := range config.Hosts[i].Listen {
				for _, pair := range l.Certs {
					if !yield(&config.Hosts[i], pair) {
						return
					}
				}
			}
		}
	}
}

// load reads the certificates of a Config that are not loaded yet. After an error, retain or close
// closes those that have been.
func (c *certStore) load(config *conf.Config, add func(string)) error {
	for host, pair := range certFilesOf(config) {
		if c.served[pair] != nil {
			continue
		}
		held, err := openCert(pair, add)
		if err != nil {
			return places.At(host.Pos, err)
		}
		c.served[pair] = held
	}
	return nil
}

// retain closes the certificates that a Config does not name.
func (c *certStore) retain(config *conf.Config) {
	named := make(map[conf.CertFiles]bool)
	for _, pair := range certFilesOf(config) {
		named[pair] = true
	}
	for pair := range c.served {
		if !named[pair] {
			c.drop(pair)
		}
	}
}

func openCert(pair conf.CertFiles, add func(string)) (*servedCert, error) {
	held := &servedCert{}
	for _, path := range []string{pair.Cert, pair.Key} {
		a, err := anchor.New(path)
		if err != nil {
			held.close()
			return nil, err
		}
		held.files = append(held.files, a)
	}
	var err error
	parse := func(cert, key []byte) (tls.Certificate, error) { return keypair.Parse(cert, key, pair.Passwords) }
	if held.store, err = certs.Open(certs.Config{Cert: held.files[0], Key: held.files[1], Parse: parse,
		Log: add}); err != nil {
		held.close()
		return nil, err
	}
	return held, nil
}

// watch reloads certificates when their files change. It prints those that are no longer readable,
// will expire soon, or are few.
func (c *certStore) watch(add func(text string), unreadable string) {
	for pair, held := range c.served {
		if held.stop != nil {
			continue
		}
		text := c.prefix(pair, ", ") + held.store.Describe(time.Now())
		if _, err := held.store.Reload(); err != nil {
			add(fmt.Sprintf("%s; %s: %v", text, unreadable, err))
			continue
		}
		if len(c.served) <= maxDescribed || held.store.ExpiresSoon(time.Now()) {
			add(text + "; reloaded when it changes")
		}
		var ctx context.Context
		ctx, held.stop = context.WithCancel(context.Background())
		c.running.Go(func() { held.store.Watch(ctx) })
	}
}

// reload rereads all certificates and prints the outcome. The error is about those that could not
// be read.
func (c *certStore) reload(add func(string), all bool) error {
	var failed []error
	for pair, held := range c.served {
		changed, err := held.store.Reload()
		switch {
		case err != nil:
			failed = append(failed, fmt.Errorf("certificate: %s: %w", pair.Cert, err))
			add(fmt.Sprintf("%sstill serving the old one: %v", c.prefix(pair, ": "), err))
		case changed:
			add(c.prefix(pair, ": ") + "serving a new one: " + held.store.Describe(time.Now()))
		case all:
			add(c.prefix(pair, ": ") + "unchanged")
		}
	}
	return errors.Join(failed...)
}

// prefix returns the beginning of a message about a certificate.
func (c *certStore) prefix(pair conf.CertFiles, separator string) string {
	if c.isSingle {
		return "certificate: "
	}
	return "certificate: " + pair.Cert + separator
}

// anchors returns the directories by which certificates can be reread.
func (c *certStore) anchors() (all []*anchor.File) {
	for _, held := range c.served {
		all = append(all, held.files...)
	}
	return all
}

func (c *certStore) drop(pair conf.CertFiles) {
	c.served[pair].close()
	delete(c.served, pair)
}

func (c *certStore) close() {
	for pair := range c.served {
		c.drop(pair)
	}
	c.running.Wait()
}

func (h *servedCert) close() {
	if h.stop != nil {
		h.stop()
	}
	for _, f := range h.files {
		f.Close()
	}
}
