package acme

import (
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// The environment of a child process that is killed.
const (
	crashConfig = "TARE_ACME_CRASH_CONFIG" // a JSON of conf.Config
	crashAt     = "TARE_ACME_CRASH_AT"     // the number of the change at which it is killed
)

// TestCrashChild is the process that is killed. It inherits the listener for challenges.
func TestCrashChild(t *testing.T) {
	text := os.Getenv(crashConfig)
	if text == "" {
		t.Skip("this is a process that other tests start")
	}
	config := new(conf.Config)
	testkit.Must(t, json.Unmarshal([]byte(text), config))
	config.Issuers[0].Insecure = true
	at, err := strconv.Atoi(os.Getenv(crashAt))
	testkit.Must(t, err)
	l, err := net.FileListener(os.NewFile(3, "challenges"))
	testkit.Must(t, err)
	changes, log := 0, newLines()
	m := New(Config{Timing: quick, Log: log.add, fault: func(string, string) error {
		if changes++; changes == at {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {} // the signal arrives
		}
		return nil
	}})
	web := &http.Server{Handler: m.Handler(http.NotFoundHandler())}
	go func() { _ = web.Serve(l) }()
	testkit.Must(t, m.Load(config, -1))
	if m.Lookup(config, config.Hosts[0].Listen[0].Issued).due().After(time.Now()) {
		return // an earlier process has stored it
	}
	m.Start()
	log.await(t, "has issued a certificate", 1)
	m.Close() // waits until it is stored
	web.Close()
}

// A process that is killed at any step loses no key and no certificate: its files stay,
// and can be parsed. The next process obtains a certificate, with the same account.
func TestKilledAtEachStep(t *testing.T) {
	t.Parallel()
	for _, renewal := range []bool{false, true} {
		const workers = 4
		var next, last int
		var mu sync.Mutex
		take := func() (n int, ok bool) {
			mu.Lock()
			defer mu.Unlock()
			next++
			return next, last == 0
		}
		var running sync.WaitGroup
		for range workers {
			s := newServers(t)
			l := listenLocal(t)
			s.pebble = programs.StartPebble(t, programs.PebbleConfig{HTTPPort: port(l), TLSPort: port(s.tls)})
			c := crash{TB: t, site: s, listener: l, dir: t.TempDir(), renewal: renewal}
			running.Go(func() {
				defer l.Close()
				for n, ok := take(); ok; n, ok = take() {
					if c.at(n) {
						mu.Lock()
						last = n
						mu.Unlock()
					}
				}
			})
		}
		running.Wait()
		if next < 10 {
			t.Errorf("renewal %v: only %d steps", renewal, next)
		}
	}
}

// crash kills processes.
type crash struct {
	testing.TB
	site     *site
	listener net.Listener
	dir      string
	renewal  bool
}

// at kills a process at its n-th change of a file and checks what remains. It returns true if the
// process has finished before.
func (c *crash) at(n int) (finished bool) {
	dir := filepath.Join(c.dir, strconv.Itoa(n))
	issuer := c.site.issuer(dir)
	issuer.Trusted, issuer.Insecure = nil, true
	config := configOf(fmt.Sprintf("n%d.test", n), issuer)
	name := filepath.Join(dir, fileName(config.Hosts[0].Listen[0].Issued))
	if c.renewal {
		c.child(config, 0)
		makeOld(c, name+".pem")
	}
	account, cert := readFile(c, filepath.Join(dir, accountKeyName)), readFile(c, name+".pem")
	finished = c.child(config, n)
	after := readFile(c, filepath.Join(dir, accountKeyName))
	if account != nil && string(account) != string(after) {
		c.Errorf("step %d: the account's key has changed", n)
	}
	if after != nil {
		if _, err := decodeKey(after); err != nil {
			c.Errorf("step %d: the account's key: %v", n, err)
		}
	}
	if text := readFile(c, name+".pem"); text != nil || cert != nil {
		if _, err := parseCertificate(text, config.Hosts[0].Listen[0].Issued.Names); err != nil {
			c.Errorf("step %d: the certificate: %v", n, err)
		}
	}
	if text := readFile(c, name+".key"); text != nil {
		if _, err := decodeKey(text); err != nil {
			c.Errorf("step %d: the pending key: %v", n, err)
		}
	}
	if !finished && !c.child(config, 0) {
		c.Errorf("step %d: no certificate afterwards", n)
	}
	if again := readFile(c, filepath.Join(dir, accountKeyName)); after != nil && string(after) != string(again) {
		c.Errorf("step %d: the account's key has changed afterwards", n)
	}
	return finished
}

// makeOld replaces a certificate by one with the same names that must be renewed.
func makeOld(t testing.TB, path string) {
	t.Helper()
	held, err := parseCertificate(readFile(t, path), nil)
	testkit.Must(t, err)
	cert, key := testkit.SelfSign(t, x509.Certificate{DNSNames: held.Leaf.DNSNames,
		NotBefore: time.Now().Add(-89 * 24 * time.Hour), NotAfter: time.Now().Add(24 * time.Hour)})
	testkit.Must(t, os.WriteFile(path, append(cert, key...), fileMode))
}

// child runs a process that obtains a certificate and is killed at its n-th change. It returns
// whether the process has finished.
func (c *crash) child(config *conf.Config, n int) bool {
	text, err := json.Marshal(config) //nolint:staticcheck // no TLSConfig, which has functions, is set
	if err != nil {
		c.Error(err)
		return false
	}
	file, err := c.listener.(*net.TCPListener).File()
	if err != nil {
		c.Error(err)
		return false
	}
	defer file.Close()
	cmd := testkit.Command(c, os.Args[0], "-test.run=^TestCrashChild$")
	cmd.Env = append(os.Environ(), crashConfig+"="+string(text), crashAt+"="+strconv.Itoa(n))
	cmd.ExtraFiles = []*os.File{file}
	out, err := cmd.CombinedOutput()
	if err == nil {
		return true
	}
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		c.Errorf("step %d: %v\n%s", n, err, out)
	}
	return false
}

// An error at any step, such as that of a full disk, loses nothing: the old certificate is served,
// or the new one from memory, and the next attempt succeeds.
func TestErrorAtEachStep(t *testing.T) {
	t.Parallel()
	s := newSite(t, programs.PebbleConfig{})
	dir := t.TempDir()
	for n := 1; ; n++ {
		changes := 0
		issuer := s.issuer(filepath.Join(dir, strconv.Itoa(n)))
		name := fmt.Sprintf("n%d.test", n)
		before := s.lines.count("has issued a certificate")
		s.run(configOf(name, issuer), Config{fault: func(string, string) error {
			if changes++; changes == n {
				return unix.ENOSPC
			}
			return nil
		}})
		s.awaitIssued(before + 1)
		s.awaitStored(issuer.StateDir)
		if _, err := s.handshake(name, s.pebble.Root(t, 0)); err != nil {
			t.Errorf("step %d: %v", n, err)
		}
		s.close()
		if issued := s.lines.count("acme: " + name + ": pebble has issued"); issued != 1 {
			t.Errorf("step %d: %d certificates were ordered", n, issued)
		}
		if changes < n {
			if n < 10 {
				t.Errorf("only %d steps", n)
			}
			return
		}
	}
}

// awaitStored waits until a certificate is in a directory, and the worker has finished with it.
func (s *site) awaitStored(dir string) {
	s.Helper()
	for late := time.Now().Add(patience); time.Now().Before(late); time.Sleep(5 * time.Millisecond) {
		if found, _ := filepath.Glob(filepath.Join(dir, "*.pem")); len(found) == 1 {
			return
		}
	}
	s.Fatalf("no certificate in %s", dir)
}

// On a disk without space nothing is ordered, because no key could be stored. The old certificate
// is served, its files stay, and the next one is obtained when there is space.
func TestFullDiskOrdersNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("no file system can be mounted: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
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
	if after := readFile(t, name+".pem"); string(after) != string(before) {
		t.Error("the certificate's file has changed")
	}
	if _, err := s.handshake("a.test", nil); err != nil {
		t.Error(err)
	}
	if n := s.lines.count("has issued a"); n != 1 {
		t.Errorf("%d certificates were ordered", n)
	}
	testkit.Must(t, os.Remove(filler))
	s.awaitIssued(2)
	s.close()
	if temporary, _ := filepath.Glob(filepath.Join(dir, "state", ".*.new")); temporary != nil {
		t.Errorf("remain: %v", strings.Join(temporary, " "))
	}
}
