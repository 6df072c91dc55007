package acme

import (
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mholt/acmez/v3/acme"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/internal/testkit"
	"github.com/tarehq/tare/internal/testkit/programs"
)

// The first certificate is issued by each challenge, for several names. Before it exists,
// handshakes are rejected by an alert; afterwards no file but what must be kept remains, and only
// the owner may read it.
func TestFirstCertificateIsIssued(t *testing.T) {
	t.Parallel()
	for challenge, names := range map[string]string{
		"http-01": "a.test b.a.test 127.0.0.1 ::1", "tls-alpn-01": "a.test c.a.test 127.0.0.1 ::1",
		"dns-01": "a.test *.a.test",
	} {
		t.Run(challenge, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, programs.PebbleConfig{})
			if s.http6 == nil || s.tls6 == nil {
				names = strings.TrimSuffix(names, " ::1")
			}
			dir := filepath.Join(t.TempDir(), "state")
			issuer := s.issuer(dir)
			issuer.Challenge, issuer.Contacts = challenge, []string{"mailto:admin@a.test"}
			config := configOf(names, issuer)
			block := make(chan struct{})
			var once bool
			m := s.run(config, Config{DNS: s.pebble, fault: func() error {
				if !once {
					once = true
					<-block // so that the order waits
				}
				return nil
			}})
			testkit.Fails(s.handshake("a.test", nil))(t, "unrecognized name", "before the certificate")
			close(block)
			s.awaitIssued(1)
			leaf := testkit.Value(s.handshake("a.test", s.pebble.Root(t, 0)))(t)
			for _, name := range strings.Fields(names) {
				testkit.Check(t, leaf.VerifyHostname(strings.Replace(name, "*", "x", 1)))
			}
			m.Close()
			checkFiles(t, dir)
			testkit.Equal(t, len(m.challenges.all), 0, "challenges that remain")
		})
	}
}

// checkFiles checks the files that remain after a certificate has been issued.
func checkFiles(t *testing.T, dir string) {
	t.Helper()
	entries := testkit.Value(os.ReadDir(dir))(t)
	var ends []string
	for _, e := range entries {
		info := testkit.Value(e.Info())(t)
		testkit.Equal(t, info.Mode().Perm(), fileMode, e.Name())
		ends = append(ends, strings.TrimPrefix(filepath.Ext(e.Name()), "."))
	}
	slices.Sort(ends)
	testkit.Equal(t, ends, []string{"key", "lock", "lock", "pem"}, "files")
	testkit.Equal(t, testkit.Value(os.Stat(dir))(t).Mode().Perm(), dirMode, "mode of the directory")
}

// A restart orders nothing: neither a certificate nor an account.
func TestRestartOrdersNothing(t *testing.T) {
	t.Parallel()
	s, config, before := newIssuedSite(t, programs.PebbleConfig{})
	s.close()
	s.pebble.Stop(t)
	s.run(config, Config{})
	s.lines.await(t, "certificate valid until .*, renewal about", 1)
	testkit.Equal(t, testkit.Value(s.handshake("a.test", nil))(t).Equal(before), true, "the same certificate")
}

// An issuer that advises to renew at once, as after a mass revocation, is obeyed at the next start.
func TestAdviceToRenewNowIsObeyed(t *testing.T) {
	t.Parallel()
	s, config, before := newIssuedSite(t, programs.PebbleConfig{})
	s.close()
	s.pebble.SetRenewalInfo(t, before, time.Now().Add(-time.Hour), time.Now().Add(-time.Minute))
	s.run(config, Config{})
	s.awaitIssued(2)
	testkit.Equal(t, testkit.Value(s.handshake("a.test", nil))(t).Equal(before), false, "the same certificate")
}

// An account is bound to an external one by a key in the configuration or a file, which need not be
// readable any more when the configuration is loaded again. A wrong key is an error that says so.
func TestExternalAccountIsBound(t *testing.T) {
	t.Parallel()
	const key = "zWNDZM6eQGHWpSRTPal5eIUYFTu7EajVIoguysqZ9wG44nMEtx3MUAsUDkMTQ12W"
	s := newSite(t, programs.PebbleConfig{ExternalKeys: map[string]string{"kid-1": key}})
	dir := t.TempDir()
	file := filepath.Join(dir, "mac.key")
	testkit.Must(t, os.WriteFile(file, []byte(key+"\n"), 0o600))
	issuer := s.issuer(filepath.Join(dir, "wrong"))
	issuer.ExternalAccount, issuer.ExternalKey = "kid-1", "AAAA"+key[4:]
	s.run(configOf("a.test", issuer), Config{})
	s.lines.await(t, "acme: a.test: pebble: account: .*", 1)
	issuer.ExternalKey, issuer.ExternalKeyFile = "", file
	issuer.StateDir = filepath.Join(dir, "right")
	s.run(configOf("a.test", issuer), Config{})
	s.awaitIssued(1)
}

// Types of keys, profiles and chains are those of the configuration.
func TestKeysProfilesAndChainsAreConfigured(t *testing.T) {
	t.Parallel()
	s := newSite(t, programs.PebbleConfig{Roots: 1, Profiles: map[string]time.Duration{"short": 10 * time.Hour}})
	dir := t.TempDir()
	issuer := s.issuer(filepath.Join(dir, "one"))
	issuer.AccountKey, issuer.Profile, issuer.RequireProfile = "ecdsa:384", "short", true
	issuer.PreferredChain = s.pebble.Root(t, 1).Subject.CommonName
	config := configOf("a.test", issuer)
	config.Hosts[0].Listen[0].Issued.Key = "rsa:2048"
	s.run(config, Config{})
	s.awaitIssued(1)
	leaf := testkit.Value(s.handshake("a.test", s.pebble.Root(t, 1)))(t)
	testkit.Equal(t, leaf.PublicKeyAlgorithm, x509.RSA, "key")
	testkit.Equal(t, leaf.NotAfter.Sub(leaf.NotBefore).Round(time.Minute), 10*time.Hour, "lifetime")
	issuer.StateDir, issuer.Profile = filepath.Join(dir, "two"), "none"
	s.run(configOf("a.test", issuer), Config{})
	s.lines.await(t, `acme: a.test: pebble: the issuer has no profile "none" \(it has: default, short\)`, 1)
	issuer.RequireProfile = false
	s.run(configOf("a.test", issuer), Config{})
	s.lines.await(t, `no profile "none" \(it has: default, short\): its default is used`, 1)
	s.awaitIssued(2)
}

// An order that is in progress when the Manager closes ends at once, and is no failure.
func TestCloseEndsAnOrder(t *testing.T) {
	t.Parallel()
	accepted := make(chan bool, 10)
	hangs := testkit.ServeTCP(t, func(c net.Conn) {
		accepted <- true
		_, _ = io.Copy(io.Discard, c)
	})
	s := newServers(t)
	issuer := conf.Issuer{Name: "hangs", Directory: "http://" + hangs + "/", StateDir: t.TempDir()}
	s.run(configOf("a.test", issuer), Config{})
	<-accepted
	s.close()
	testkit.Equal(t, s.lines.count("next attempt"), 0, "failures")
}

// Requests for other paths and tokens, and other methods, reach the next handler.
func TestOnlyChallengesAreTaken(t *testing.T) {
	m := New(Config{})
	testkit.Must(t, m.challenges.Present(t.Context(), acme.Challenge{Type: acme.ChallengeTypeHTTP01, Token: "abc",
		KeyAuthorization: "abc.thumb"}))
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	for _, c := range []struct {
		method, path string
		taken        bool
	}{
		{"GET", httpPrefix + "abc", true}, {"HEAD", httpPrefix + "abc", true}, {"POST", httpPrefix + "abc", false},
		{"GET", httpPrefix + "abd", false}, {"GET", httpPrefix, false}, {"GET", "/abc", false},
		{"GET", httpPrefix + "abc/", false},
	} {
		w := httptest.NewRecorder()
		m.Handler(next).ServeHTTP(w, httptest.NewRequest(c.method, c.path, nil))
		want := ""
		if c.taken {
			want = "abc.thumb"
		}
		testkit.Equal(t, w.Code != http.StatusTeapot, c.taken, c.method, c.path)
		testkit.Equal(t, w.Body.String(), want, c.method, c.path)
	}
}

// IP addresses have the names of RFC 8738 in handshakes.
func TestHandshakeNames(t *testing.T) {
	for identifier, want := range map[string]string{
		"A.test": "a.test", "192.0.2.1": "1.2.0.192.in-addr.arpa",
		"2001:db8::1": "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa",
	} {
		testkit.Equal(t, handshakeName(identifier), want, identifier)
	}
}

// A configuration that cannot work is an error before anything is ordered.
func TestCheckFindsMistakes(t *testing.T) {
	good := conf.Issuer{Name: "i", Directory: "https://ca.test/", StateDir: "/x"}
	with := func(change func(*conf.Issuer)) conf.Issuer {
		i := good
		change(&i)
		return i
	}
	for want, config := range map[string]*conf.Config{
		"invalid uri":            configOf("a.test", with(func(i *conf.Issuer) { i.Directory = "ftp://x" })),
		"server.Options.DNS":     configOf("a.test", with(func(i *conf.Issuer) { i.Challenge = "dns-01" })),
		"unknown challenge":      configOf("a.test", with(func(i *conf.Issuer) { i.Challenge = "x" })),
		"requires the challenge": configOf("*.a.test", good), "not a DNS name": configOf("a..test", good),
		"zone":     configOf("fe80::1%eth0", good),
		"no names": configOf("", good), "duplicate issuer": configOf("a.test", good, good),
		"is also that of": configOf("a.test", good, with(func(i *conf.Issuer) { i.Name = "j" })),
		"no such file":    configOf("a.test", with(func(i *conf.Issuer) { i.AccountKeyFile = "/nonexistent/key" })),
		"missing folder":  configOf("a.test", with(func(i *conf.Issuer) { i.StateDir = "" })),
	} {
		testkit.Error(t, New(Config{}).Check(config), want)
	}
	for want, issued := range map[string]conf.Issued{"unknown issuer": {Issuer: "k", Names: []string{"a.test"}},
		"unknown key type": {Issuer: "i", Names: []string{"a.test"}, Key: "dsa"}} {
		config := configOf("a.test", good)
		config.Hosts[0].Listen[0].Issued = &issued
		testkit.Error(t, New(Config{}).Check(config), want)
	}
	testkit.Check(t, New(Config{}).Check(configOf("a.test 10.0.0.1 ::1 xn--x", good)))
	dns := configOf("::1", with(func(i *conf.Issuer) { i.Challenge = "dns-01" }))
	testkit.Error(t, New(Config{DNS: new(programs.Pebble)}).Check(dns), "an IP address", "dns-01 for an address")
}

// Keys are not stored where other users could replace them, or in a file that others can read.
func TestKeysStayOutOfDirectoriesOfOthers(t *testing.T) {
	dir := t.TempDir()
	temporary := filepath.Join(dir, ".key.new")
	testkit.Must(t, os.WriteFile(temporary, nil, 0o600))
	testkit.Must(t, os.Chmod(temporary, 0o666))
	testkit.Must(t, newStore(dir).write("key", []byte("secret")))
	testkit.Equal(t, testkit.Value(os.Stat(filepath.Join(dir, "key")))(t).Mode(), fileMode)
	config := configOf("a.test", conf.Issuer{Name: "i", Directory: "https://ca.test/", StateDir: dir, Pos: "nginx.conf:3"})
	check := func(want string) {
		t.Helper()
		err := New(Config{}).Load(config, -1)
		testkit.Error(t, err, "nginx.conf:3: acme_issuer i: state_path: "+dir+": "+want)
	}
	testkit.Must(t, os.Chmod(dir, 0o777))
	check("all users may write to it")
	if os.Geteuid() != 0 {
		return
	}
	testkit.Must(t, os.Chmod(dir, 0o700))
	testkit.Must(t, os.Chown(dir, 64123, -1))
	check("user 64123 owns it")
}

// A directory with files of others is not given to the user that will serve.
func TestDirectoriesOfOthersAreNotGivenAway(t *testing.T) {
	testkit.NeedRoot(t)
	const uid = 64123
	dir := t.TempDir()
	config := configOf("a.test", conf.Issuer{Name: "i", Directory: "https://ca.test/", StateDir: dir, Pos: "nginx.conf:3"})
	for _, name := range []string{"account.key", "x.pem", ".x.json.new", "account.lock"} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	owner := func() uint32 {
		info := testkit.Value(os.Stat(dir))(t)
		return info.Sys().(*syscall.Stat_t).Uid
	}
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "passwd"), nil, 0o600))
	err := New(Config{}).Load(config, uid)
	testkit.Error(t, err, "nginx.conf:3: acme_issuer i: state_path: "+dir+` has other files, such as "passwd"`)
	testkit.Equal(t, owner() == uid, false, "the directory is given away")
	testkit.Must(t, os.Remove(filepath.Join(dir, "passwd")))
	testkit.Must(t, New(Config{}).Load(config, uid))
	testkit.Equal(t, owner(), uid, "owner")
}

// A key that is written where the name of a file belongs does not appear in the error.
func TestExternalKeyIsNotPrinted(t *testing.T) {
	for _, key := range []string{"c2VjcmV0", strings.Repeat("c2VjcmV0", 1000)} {
		issuer := conf.Issuer{Name: "i", Directory: "https://ca.test/", StateDir: t.TempDir(),
			ExternalAccount: "kid", ExternalKeyFile: "/etc/nginx/" + key}
		err := New(Config{}).Check(configOf("a.test", issuer))
		if err == nil || strings.Contains(err.Error(), "c2VjcmV0") || !strings.Contains(err.Error(), "data:KEY") {
			t.Errorf("%v", err)
		}
	}
}

// Certificates that share names are ordered at the same time. The issuer's handshakes for
// TLS-ALPN-01 have only the name, and yet each order succeeds at its first attempt.
func TestCertificatesShareNamesOfTLSALPN(t *testing.T) {
	t.Parallel()
	s := newSite(t, programs.PebbleConfig{})
	issuer := s.issuer(filepath.Join(t.TempDir(), "state"))
	issuer.Challenge = "tls-alpn-01"
	config := configOf("a.test b.test", issuer)
	for _, names := range [][]string{{"b.test", "a.test", "c.test"}, {"b.test"}, {"c.test", "a.test"}} {
		config.Hosts = append(config.Hosts, conf.Host{Listen: []conf.Listen{{Addr: "*:443", TLS: true,
			Issued: &conf.Issued{Issuer: issuer.Name, Names: names}}}})
	}
	s.run(config, Config{})
	s.awaitIssued(4)
	testkit.Equal(t, s.lines.count("next attempt"), 0, "orders that failed")
}
