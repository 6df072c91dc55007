package acme

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/printable"
)

// maxOrders limits orders in progress with an issuer at the same time.
const maxOrders = 4

// Config configures a Manager.
type Config struct {
	// Log is called with lines about certificates, by any goroutine. It must not block.
	Log func(text string)
	// DNS solves challenges of type DNS-01; nil supports none.
	DNS DNSProvider
	// Now returns the time. Nil is time.Now.
	Now func() time.Time
	// Timing has the intervals of renewals and attempts.
	Timing Timing

	// fault is that of all stores, in tests.
	fault func() error
}

// Manager keeps the certificates of a configuration valid. Load, Retain, Start, Lookup and Close
// must not be called concurrently; its other methods may be called by any goroutine.
type Manager struct {
	config     Config
	challenges *challenges
	stores     map[string]*store
	managed    map[string]*Certificate // by identity
	secrets    map[string][]byte       // the contents of keys' files, by path
	running    sync.WaitGroup
}

// New returns a Manager without certificates.
func New(config Config) *Manager {
	if config.Now == nil {
		config.Now = time.Now
	}
	if log := config.Log; log != nil {
		config.Log = func(text string) { log(oneLine(text)) }
	} else {
		config.Log = func(string) {}
	}
	config.Timing = config.Timing.withDefaults()
	return &Manager{config: config, challenges: newChallenges(), stores: make(map[string]*store),
		managed: make(map[string]*Certificate), secrets: make(map[string][]byte)}
}

// Load reads the state of the certificates of a Config that are not loaded yet. It creates missing
// directories; if uid is not negative, that user owns them. After an error Retain removes the
// certificates that have been loaded.
func (m *Manager) Load(config *conf.Config, uid int) error {
	if err := m.Check(config); err != nil {
		return err
	}
	for _, issued := range allIssued(config) {
		identity := identify(config, issued)
		if m.managed[identity] != nil {
			continue
		}
		c, err := m.open(config, issued, uid)
		if err != nil {
			return err
		}
		m.managed[identity] = c
	}
	return nil
}

// open makes a certificate and loads what is stored about it.
func (m *Manager) open(config *conf.Config, issued *conf.Issued, uid int) (*Certificate, error) {
	c := &Certificate{manager: m, spec: *issued, name: fileName(issued)}
	ic := findIssuer(config, issued.Issuer)
	c.store = m.storeOf(ic)
	if err := c.store.prepare(uid); err != nil {
		return nil, fmt.Errorf("%s: state_path: %w", positionOf(ic), err)
	}
	if err := c.store.check(ic); err != nil {
		return nil, err
	}
	keys, err := m.readSecrets(ic)
	if err != nil {
		return nil, err
	}
	c.issuer = m.newIssuer(ic, c.store, keys)
	if _, err = c.load(); err != nil {
		return nil, fmt.Errorf("%s: %w", positionOf(ic), err)
	}
	return c, nil
}

// maxLine limits the length of a line in the log.
const maxLine = 1000

// oneLine returns a text, which may contain one of an issuer, as a line for a log and a terminal.
func oneLine(text string) string {
	if text = printable.Text(text, ""); len(text) > maxLine {
		text = strings.ToValidUTF8(text[:maxLine], "") + "..."
	}
	return text
}

// storeOf returns the store of an issuer, which its certificates share.
func (m *Manager) storeOf(ic *conf.Issuer) *store {
	if m.stores[ic.StateDir] == nil {
		m.stores[ic.StateDir] = newStore(ic.StateDir)
		m.stores[ic.StateDir].fault = m.config.fault
	}
	return m.stores[ic.StateDir]
}

// readSecrets reads the files with keys that an issuer names. A file that is no longer readable,
// because the process has become another user, keeps its content.
func (m *Manager) readSecrets(ic *conf.Issuer) (keys secrets, err error) {
	if ic.AccountKeyFile != "" {
		keys.accountKey, err = m.readSecret(ic.AccountKeyFile)
		if err == nil {
			_, err = decodeKey(keys.accountKey)
		}
		if err != nil {
			return keys, fmt.Errorf("%s: account_key %s: %w", positionOf(ic), ic.AccountKeyFile, err)
		}
	}
	if ic.ExternalKeyFile != "" {
		if keys.externalKey, err = m.readSecret(ic.ExternalKeyFile); err != nil {
			return keys, fmt.Errorf("%s: external_account_key: %w", positionOf(ic), withoutPath(err))
		}
	}
	return keys, nil
}

// withoutPath returns the cause of an error about a file. The path may be a key that should follow
// "data:".
func withoutPath(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return fmt.Errorf("the file cannot be read: %w (a key itself is written as data:KEY)", err)
}

func (m *Manager) readSecret(path string) ([]byte, error) {
	text, err := newStore("/").read(path)
	if known, ok := m.secrets[path]; ok && errors.Is(err, fs.ErrPermission) {
		return known, nil
	}
	if err == nil {
		m.secrets[path] = text
	}
	return text, err
}

// Retain stops and removes the certificates that a Config does not name.
func (m *Manager) Retain(config *conf.Config) {
	named := make(map[string]bool)
	for _, issued := range allIssued(config) {
		named[identify(config, issued)] = true
	}
	for identity, c := range m.managed {
		if !named[identity] {
			c.close()
			delete(m.managed, identity)
		}
	}
}

// CheckWritable returns an error if the user that the process is now may not write to an issuer's
// directory. A full disk is no error.
func (m *Manager) CheckWritable() error {
	for _, c := range m.sorted() {
		if err := c.store.check(c.issuer.conf); err != nil {
			return err
		}
	}
	return nil
}

// Start begins to obtain and renew the certificates that were loaded, unless that has begun.
func (m *Manager) Start() {
	for _, c := range m.sorted() {
		if c.stop != nil {
			continue
		}
		if current := c.current.Load(); current != nil {
			c.logf("certificate %s, renewal about %s", c.validity(current),
				c.renewalTime(current).UTC().Format(time.DateTime))
		} else {
			c.logf("no certificate yet: TLS handshakes for it fail until %s has issued one", c.issuer.conf.Name)
		}
		var ctx context.Context
		ctx, c.stop = context.WithCancel(context.Background())
		m.running.Go(func() { c.run(ctx) })
	}
}

// sorted returns the certificates by name, so that the log's order is stable.
func (m *Manager) sorted() []*Certificate {
	var all []*Certificate
	for _, c := range m.managed {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *Certificate) int { return strings.Compare(a.name, b.name) })
	return all
}

// Lookup returns the certificate of a Config that was loaded.
func (m *Manager) Lookup(config *conf.Config, issued *conf.Issued) *Certificate {
	return m.managed[identify(config, issued)]
}

// Stop ends orders and renewals, without waiting. The certificates remain available.
func (m *Manager) Stop() {
	for _, c := range m.managed {
		if c.stop != nil {
			c.stop()
		}
	}
}

// Close stops and waits until nothing runs any more.
func (m *Manager) Close() {
	for _, c := range m.managed {
		c.close()
	}
	m.running.Wait()
}

func (c *Certificate) close() {
	if c.stop != nil {
		c.stop()
	}
	c.issuer.transport.CloseIdleConnections()
}

// fileName returns the name of a certificate's files, without an extension.
func fileName(issued *conf.Issued) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %s", slices.Sorted(slices.Values(issued.Names)), keyTypeOf(issued.Key)))
	first := strings.NewReplacer("*", "_", ":", "-", "/", "-").Replace(issued.Names[0])
	return fmt.Sprintf("%s-%x", first, sum[:4])
}
