package acme

import (
	"crypto/x509"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
	"github.com/tarehq/tare/internal/testkit/tlstest"
)

// A certificate is issued as soon as its issuer can be reached.
func TestIssuerThatIsDownAtFirst(t *testing.T) {
	t.Parallel()
	address := programs.FreeAddresses(t, 1)[0]
	s := newServers(t)
	dir := filepath.Join(t.TempDir(), "state")
	// the certificate of the server does not exist yet
	issuer := conf.Issuer{Name: "pebble", Directory: "https://" + address + "/dir", StateDir: dir, AcceptTerms: true,
		Insecure: true}
	s.run(configOf("a.test", issuer), Config{})
	s.lines.await(t, "acme: a.test: pebble: .*connection refused", 1)
	s.lines.await(t, "acme: a.test: no certificate yet: TLS handshakes for it fail; next attempt in", 2)
	s.startPebble(programs.PebbleConfig{Address: address})
	s.awaitIssued(1)
}

// An issuer that rejects valid nonces is tried again, without a failure.
func TestRejectedNonces(t *testing.T) {
	t.Parallel()
	s := newSite(t, programs.PebbleConfig{BadNonces: 25})
	s.run(configOf("a.test b.test", s.issuer(filepath.Join(t.TempDir(), "state"))), Config{})
	s.awaitIssued(1)
	testkit.Equal(t, s.lines.count("next attempt"), 0, "failures")
}

// A challenge that fails leaves the old certificate in use. It succeeds once the cause has gone.
func TestFailedChallengeKeepsTheOldCertificate(t *testing.T) {
	t.Parallel()
	s, _, before := newIssuedSite(t, programs.PebbleConfig{Lifetime: 8 * time.Second})
	s.mu.Lock()
	m := s.manager
	s.manager = nil // another program serves port 80
	s.mu.Unlock()
	s.lines.await(t, "acme: a.test: pebble: .*404", 1)
	s.lines.await(t, "acme: a.test: still serving the one valid until .*; next attempt in", 1)
	s.mu.Lock()
	s.manager = m
	s.mu.Unlock()
	after, err := s.handshake("a.test", nil)
	if err != nil || !after.Equal(before) && s.lines.count("has issued a") < 2 {
		t.Errorf("after the failure another certificate, %v", err)
	}
	s.awaitIssued(2)
}

// A name that the issuer rejects does not affect other certificates.
func TestRejectedName(t *testing.T) {
	t.Parallel()
	s := newSite(t, programs.PebbleConfig{Blocked: []string{"blocked.test"}})
	config := configOf("blocked.test", s.issuer(filepath.Join(t.TempDir(), "state")))
	config.Hosts = append(config.Hosts, configOf("a.test", config.Issuers[0]).Hosts...)
	s.run(config, Config{})
	s.lines.await(t, "acme: blocked.test: pebble: .*rejectedIdentifier", 1)
	s.lines.await(t, "acme: a.test: pebble has issued", 1)
}

// If a machine's clock is wrong, the log says so, and one certificate is ordered, not many.
func TestWrongClockIsLogged(t *testing.T) {
	t.Parallel()
	s := newSite(t, programs.PebbleConfig{})
	const years = 2 * 365 * 24 * time.Hour
	for name, off := range map[string]time.Duration{"ahead": years, "behind": -years} {
		issuer := s.issuer(filepath.Join(t.TempDir(), name))
		wrong := Config{Now: func() time.Time { return time.Now().Add(off) },
			Timing: Timing{RetryMin: 10 * time.Millisecond, MinAge: time.Hour}}
		before := s.lines.count("has issued a")
		s.run(configOf(name+".test", issuer), wrong)
		// the certificate of the issuer's server is not valid at that time, either
		s.lines.await(t, "acme: "+name+".test: pebble: .*certificate has expired or is not yet valid", 2)
		issuer.Insecure = true
		s.run(configOf(name+".test", issuer), wrong)
		s.awaitIssued(before + 1)
		s.lines.await(t, "acme: "+name+".test: the new certificate is valid from .*: check the clock", 1)
		testkit.Value(s.handshake(name+".test", s.pebble.Root(t, 0)))(t) // clients' clocks are right
		time.Sleep(300 * time.Millisecond)                               // an order takes less
		testkit.Equal(t, s.lines.count("has issued a")-before, 1, name, "certificates")
	}
}

// Files that cannot be parsed are replaced. The key of an account is not.
func TestInvalidFilesAreReplaced(t *testing.T) {
	t.Parallel()
	s, config, _ := newIssuedSite(t, programs.PebbleConfig{})
	s.close()
	dir := config.Issuers[0].StateDir
	name := filepath.Join(dir, fileName(config.Hosts[0].Listen[0].Issued))
	half := readFile(t, name+".pem")
	half = half[:100] // a part of the key
	for _, end := range []string{".pem", ".key", ".json"} {
		testkit.Must(t, os.WriteFile(name+end, half, 0o600))
	}
	s.run(config, Config{})
	s.lines.await(t, `a\.test-\w+\.pem: .* \(a new certificate will be ordered\)`, 1)
	s.awaitIssued(2)
	s.close()
	key := filepath.Join(dir, accountKeyName)
	testkit.Must(t, os.WriteFile(key, half[:20], 0o600))
	testkit.Must(t, os.Remove(name+".pem"))
	s.run(config, Config{})
	s.lines.await(t, "account key: .*account.key: .*restore it, or remove it", 1)
	s.close()
	testkit.Equal(t, string(readFile(t, key)), string(half[:20]), "the account's key")
}

// An issuer that has lost an account gets it again, with the same key.
func TestLostAccountIsRegisteredAgain(t *testing.T) {
	t.Parallel()
	s, config, _ := newIssuedSite(t, programs.PebbleConfig{})
	dir := config.Issuers[0].StateDir
	s.close()
	s.pebble.Stop(t)
	s.startPebble(programs.PebbleConfig{ // it has no accounts
		Address: strings.TrimSuffix(strings.TrimPrefix(s.pebble.Directory, "https://"), "/dir")})
	before := readFile(t, filepath.Join(dir, accountKeyName))
	s.run(configOf("b.test", s.issuer(dir)), Config{})
	s.lines.await(t, "acme: b.test: pebble has issued", 1)
	issuer := s.issuer(dir)
	issuer.Contacts = []string{"mailto:admin@c.test"} // the account is found, and changed
	s.run(configOf("c.test", issuer), Config{})
	s.lines.await(t, "acme: c.test: pebble has issued", 1)
	s.close()
	testkit.Equal(t, string(readFile(t, filepath.Join(dir, accountKeyName))), string(before), "the account's key")
}

// While another process holds the lock, nothing is ordered. Its certificate is then used.
func TestLockedCertificateIsOrderedOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, programs.PebbleConfig{})
	dir := filepath.Join(t.TempDir(), "state")
	config := configOf("a.test", s.issuer(dir))
	other := newStore(dir)
	testkit.Must(t, other.prepare(-1))
	name := fileName(config.Hosts[0].Listen[0].Issued)
	unlock := testkit.Value(other.lock(name))(t)
	testkit.FailsWith(newStore(dir).lock(name))(t, errLocked, "a second lock")
	m := s.run(config, Config{})
	second := New(Config{Log: s.lines.add, Timing: quick})
	defer second.Close()
	testkit.Must(t, second.Load(config, -1))
	second.Start()
	time.Sleep(5 * quick.LockRetry)
	testkit.Equal(t, s.lines.count("issued a"), 0, "orders in spite of the lock")
	unlock()
	// only the first one solves challenges here; the second one fails at most until then
	s.lines.await(t, "has issued a certificate|another process has obtained", 2)
	testkit.Equal(t, s.lines.count("has issued a certificate"), 1, "certificates")
	a, _ := m.Lookup(config, config.Hosts[0].Listen[0].Issued).GetCertificate(nil)
	b, _ := second.Lookup(config, config.Hosts[0].Listen[0].Issued).GetCertificate(nil)
	if a == nil || b == nil || !a.Leaf.Equal(b.Leaf) {
		t.Error("the two processes serve different certificates")
	}
}

// A directory that the process may not write to is an error that says what to do.
func TestDirectoryThatCannotBeWritten(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "missing", "state")
	config := configOf("a.test", conf.Issuer{Name: "i", Directory: "https://ca.test/", StateDir: dir, Pos: "nginx.conf:3"})
	err := New(Config{}).Load(config, -1)
	testkit.Error(t, err, "nginx.conf:3: acme_issuer i: state_path: ")
}

// A certificate that has expired, because its issuer was down for long, is served on. The log says
// that it has expired.
func TestExpiredCertificateIsServed(t *testing.T) {
	t.Parallel()
	testkit.Long(t, "it waits for attempts")
	s := newServers(t)
	dir := t.TempDir()
	config := configOf("a.test", conf.Issuer{Name: "down", StateDir: dir,
		Directory: "https://" + programs.FreeAddresses(t, 1)[0] + "/dir"})
	cert, key := tlstest.SelfSign(t, x509.Certificate{DNSNames: []string{"a.test"},
		NotBefore: time.Now().Add(-90 * 24 * time.Hour), NotAfter: time.Now().Add(-time.Hour)})
	name := filepath.Join(dir, fileName(config.Hosts[0].Listen[0].Issued)+".pem")
	testkit.Must(t, os.WriteFile(name, append(cert, key...), fileMode))
	s.run(config, Config{})
	s.lines.await(t, `acme: a.test: still serving the one valid until .* \(expired\); next attempt in`, 2)
	testkit.Value(s.handshake("a.test", nil))(t)
}

// A process that is killed at any step loses no key and no certificate: its files stay, and can be
// parsed. The next process obtains a certificate, with the same account.
func TestKilledAtEachStep(t *testing.T) {
	t.Parallel()
	testRenewals(t, func(t *testing.T, dir, name string, renewal bool) {
		account := readFile(t, filepath.Join(dir, accountKeyName))
		var left []string // what a process leaves that is killed before the change with this index
		obtain(t, dir, func(n int) error {
			left = append(left, filepath.Join(t.TempDir(), strconv.Itoa(n)))
			return os.CopyFS(left[n-1], os.DirFS(dir))
		})
		for n, dir := range left {
			before := readFile(t, filepath.Join(dir, accountKeyName))
			if account != nil {
				testkit.Equal(t, string(before), string(account), "the account's key at step", n)
			}
			for path, parse := range map[string]func([]byte) error{
				accountKeyName: parseKey, name + ".key": parseKey, name + ".pem": parseStored,
			} {
				if text := readFile(t, filepath.Join(dir, path)); text != nil || renewal && path == name+".pem" {
					testkit.Check(t, parse(text))
				}
			}
			obtain(t, dir, nil)
			if before != nil {
				after := readFile(t, filepath.Join(dir, accountKeyName))
				testkit.Equal(t, string(after), string(before), "the account's key after step", n)
			}
		}
		testkit.Between(t, len(left), 10, 100, "steps")
	})
}

// An error at any step, such as that of a full disk, loses nothing: the old certificate is served,
// or the new one from memory, and the next attempt succeeds.
func TestErrorAtEachStep(t *testing.T) {
	t.Parallel()
	testRenewals(t, func(t *testing.T, dir, _ string, _ bool) {
		for fail, steps := 1, 10; fail <= steps; fail++ {
			copied := filepath.Join(t.TempDir(), strconv.Itoa(fail))
			testkit.Must(t, os.CopyFS(copied, os.DirFS(dir)))
			changes, issued := obtain(t, copied, func(n int) error {
				if n == fail {
					return unix.ENOSPC
				}
				return nil
			})
			testkit.Equal(t, issued, 1, "certificates at step", fail)
			steps = max(steps, changes)
		}
	})
}

// testRenewals calls f with an empty directory, and with one whose certificate must be renewed. name
// is that of the certificate's files.
func testRenewals(t *testing.T, f func(t *testing.T, dir, name string, renewal bool)) {
	t.Helper()
	testkit.Long(t, "it syncs many files")
	for _, renewal := range []bool{false, true} {
		dir, config := filepath.Join(t.TempDir(), "state"), configOf("a.test", conf.Issuer{})
		testkit.Must(t, os.Mkdir(dir, dirMode))
		name := fileName(config.Hosts[0].Listen[0].Issued)
		if renewal {
			obtain(t, dir, nil)
			synctest.Test(t, func(t *testing.T) { makeOld(t, filepath.Join(dir, name+".pem")) })
		}
		f(t, dir, name, renewal)
	}
}

// obtain runs a process until it has stored a certificate that need not be renewed. It calls fault
// before each change of a file, with the change's number. It returns the number of changes, and of
// certificates that were issued. A certificate that there was is served meanwhile.
func obtain(t *testing.T, dir string, fault func(n int) error) (changes int, issued int64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &forger{URL: "http://i.test"}
		var c *Certificate
		var end func()
		served := false
		c, end = f.manage(t, f, conf.Issuer{StateDir: dir}, Config{Log: func(text string) { t.Log(text) },
			fault: func() error {
				if changes++; served && c.current.Load() == nil {
					t.Errorf("no certificate is served at step %d", changes)
				}
				if fault == nil {
					return nil
				}
				return fault(changes)
			}})
		served = c.current.Load() != nil
		c.manager.Start()
		time.Sleep(time.Hour) // attempts
		end()
		issued = f.issued.Load()
		stored := testkit.Value(parseCertificate(readFile(t, filepath.Join(dir, c.name+".pem")), c.spec.Names))(t)
		if c.current.Load() == nil || !stored.Leaf.Equal(c.current.Load().Leaf) || !c.due().After(time.Now()) {
			t.Error("the stored certificate is not the one that is served, or must be renewed")
		}
	})
	return changes, issued
}

func parseKey(text []byte) error {
	_, err := decodeKey(text)
	return err
}

func parseStored(text []byte) error {
	_, err := parseCertificate(text, []string{"a.test"})
	return err
}

// makeOld replaces a certificate by one with the same names that must be renewed.
func makeOld(t testing.TB, path string) {
	t.Helper()
	held := testkit.Value(parseCertificate(readFile(t, path), nil))(t)
	cert, key := tlstest.SelfSign(t, x509.Certificate{DNSNames: held.Leaf.DNSNames,
		NotBefore: time.Now().Add(-89 * 24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour)})
	testkit.Must(t, os.WriteFile(path, append(cert, key...), fileMode))
}

// On a disk without space nothing is ordered, because no key could be stored. The old certificate
// is served, its files stay, and the next one is obtained when there is space.
func TestFullDiskOrdersNothing(t *testing.T) {
	t.Parallel()
	dir := testkit.SmallDisk(t, "64k")
	s := newSite(t, programs.PebbleConfig{})
	config := configOf("a.test", s.issuer(filepath.Join(dir, "state")))
	s.run(config, Config{})
	s.awaitIssued(1)
	s.close()
	name := filepath.Join(dir, "state", fileName(config.Hosts[0].Listen[0].Issued))
	makeOld(t, name+".pem")
	before := readFile(t, name+".pem")
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("the disk is not full: %v", err)
	}
	s.run(config, Config{})
	s.lines.await(t, "acme: a.test: pebble: .*no space left on device", 2)
	s.lines.await(t, "acme: a.test: still serving the one valid until", 2)
	testkit.Equal(t, string(readFile(t, name+".pem")), string(before), "the certificate's file")
	testkit.Value(s.handshake("a.test", nil))(t)
	testkit.Equal(t, s.lines.count("has issued a"), 1, "certificates")
	testkit.Must(t, os.Remove(filler))
	s.awaitIssued(2)
	s.close()
	testkit.Equal(t, testkit.Value(filepath.Glob(filepath.Join(dir, "state", ".*.new")))(t), nil, "temporary files")
}
