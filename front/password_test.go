package front

import (
	"context"
	"log"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/tarehq/tare/front/conf"
)

// The hashes are those of openssl and htpasswd.
func TestKnownHashesMatch(t *testing.T) {
	for _, c := range []struct{ hash, word string }{
		{"$apr1$abcdefgh$cy3DSYyOwfhsyu7QOMQzd.", "hello"},
		{"$apr1$MDpWqFDF$IlOkiqUYpkotKAohanKJN0", ""},
		{"$apr1$x$MAXlATTZh0qXldws2JUsQ0", "a longer password than sixteen bytes, and more"},
		{"{SHA}qvTGHdzF6KLavt4PO0gs2a6pQ00=", "hello"},
		{"{SSHA}cyy1DSsp8htHWuMRIU8YoBan9yBzYWx0", "x"},
		{"{PLAIN}a:b", "a:b"},
		{"$6$abcdefgh$xipHhw9/NU1ASPvh9yHqieZTU/wnHyMSOZS8m4xkh3DunUWS9aWU6YyGCVH6.orJUrRcjNuTwSSMmBOVdkdOl0",
			"se cret"},
		{"$6$rounds=2000$abcdefgh$lqXzcKuTDI0xEwT4ESDiJHzusKFn4q93OWhvIUZ0DJJ0dR0iTbhK30UOQc48zKHEvpFLKtXp9STF7SAmKexma.", "se cret"},
		{"$5$abcdefgh$R.O4v3YfCsHKLE1odnRJ9V3X46Hup06XNkuWBVbgro3", "se cret"},
	} {
		if !hashMatches(c.hash, c.word) {
			t.Errorf("%s does not match %q", c.hash, c.word)
		}
		if hashMatches(c.hash, c.word+"x") {
			t.Errorf("%s matches %q, too", c.hash, c.word+"x")
		}
	}
	for hash, why := range map[string]string{
		"$6$salt": "incomplete", "$5$rounds=9999999$a$b": "rounds", "$6$rounds=x$a$b": "rounds",
		"$1$salt$hash": "$1$", "rqXexS6ZhobKA": "crypt", "": "unsupported hash", "$2y$31$" +
			strings.Repeat("a", 53): "bcrypt cost 31", "$2": "bcrypt",
	} {
		if err := checkHash(hash); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q: %v, want an error with %q", hash, err, why)
		}
		if hashMatches(hash, "x") {
			t.Errorf("%q matches", hash)
		}
	}
}

// A file that changes is read again. Users with unsupported hashes cannot log in, and reading the
// file logs them.
func TestChangedPasswordFileIsRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "passwords")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var all passwordFiles
	var warnings []string
	right := func(word string) bool {
		t.Helper()
		f, err := all.open(name, func(err error) { warnings = append(warnings, err.Error()) })
		if err != nil {
			t.Fatal(err)
		}
		ok, err := all.verify(t.Context(), f, "a", word)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	write("a:{PLAIN}one\r\n")
	if !right("one") || right("two") {
		t.Error("the password is not that of the file")
	}
	write("a:{PLAIN}two and longer\n")
	for late := time.Now().Add(time.Minute); !right("two and longer"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("the file is not read again")
		}
	}
	write("b:{PLAIN}x\na:$1$x$y\na:{PLAIN}two and longer\nc:\n")
	for late := time.Now().Add(time.Minute); right("two and longer"); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(late) {
			t.Fatal("a user with an unsupported hash can log in")
		}
	}
	const want = `line 2: user "a" cannot log in: `
	if right("x") || right("") || len(warnings) != 1 || !strings.Contains(warnings[0], want) ||
		!strings.HasSuffix(warnings[0], "; and 1 more") {
		t.Errorf("warnings: %q, want one with %q", warnings, want)
	}
	var output strings.Builder
	c := conf.Config{Hosts: []conf.Host{{Defaults: conf.Settings{Password: &conf.Password{Realm: "r",
		File: conf.Text(name)}}}}}
	h, err := New(c, LogErrors(log.New(&output, "", 0)))
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if got := output.String(); !strings.HasPrefix(got, "front: [warn] auth_basic_user_file: "+name+": "+want) {
		t.Errorf("logged %q", got)
	}
	s := conf.Settings{Password: &conf.Password{Realm: "r"}}
	if _, err := New(conf.Config{Hosts: []conf.Host{{Defaults: s}}}); err == nil {
		t.Error("a password without a file")
	}
}

// A slow hash is computed once per correct password, and the memory for this is bounded.
func TestCorrectPasswordIsHashedOnce(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte("word"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	f := parsePasswords("a:" + string(hash))
	var all passwordFiles
	verify := func(name, word string) bool {
		ok, err := all.verify(t.Context(), f, name, word)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if !verify("a", "word") || verify("a", "other") || verify("b", "word") || len(all.verified) != 1 {
		t.Errorf("%d are remembered", len(all.verified))
	}
	for range cap(all.hashSlots) {
		all.hashSlots <- struct{}{} // all slots are in use
	}
	if !verify("a", "word") {
		t.Error("it is computed again")
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := all.verify(ctx, f, "a", "other"); err == nil {
		t.Error("the client has left, and the request waits")
	}
	for i := range 2 * maxVerified {
		all.remember([32]byte{byte(i), byte(i >> 8)})
	}
	if len(all.verified) != maxVerified {
		t.Errorf("%d are remembered", len(all.verified))
	}
}

func FuzzPasswords(f *testing.F) {
	f.Add("a:b\n#c\nd:$apr1$x$y:z\r\n", "word")
	f.Add("a:$2y$04$\nb:{SSHA}AAAA\nc:{SHA}\n:\n", "")
	f.Fuzz(func(t *testing.T, text, word string) {
		p := parsePasswords(text)
		for name, hash := range p.hashes {
			if name == "" || strings.ContainsAny(name+hash, ":\n") {
				t.Errorf("%q has the hash %q", name, hash)
			}
			if isSlowHash(hash) && !strings.HasPrefix(hash, "$apr1$") {
				continue // bcrypt is slow
			}
			_ = hashMatches(hash, word)
		}
	})
}

// Whatever the fields are, the address is the peer's, or one in the header after the last that is
// not trusted.
func FuzzForwarded(f *testing.F) {
	f.Add("10.0.0.1, 192.0.2.1", "10.2.2.2")
	f.Add("[::1]:80,,\t1.2.3.4:5", "x")
	trusts := &realIP{header: "X-Forwarded-For", isList: true, recursive: true}
	trusts.from.add(netip.MustParsePrefix("10.0.0.0/8"), 0)
	peer, stranger := netip.MustParseAddrPort("10.0.0.9:1"), netip.MustParseAddrPort("192.0.2.9:1")
	f.Fuzz(func(t *testing.T, first, second string) {
		header := map[string][]string{"X-Forwarded-For": {first, second}}
		if got, ok := trusts.find(stranger, header); ok || got != stranger {
			t.Errorf("a stranger is trusted: %v", got)
		}
		got, ok := trusts.find(peer, header)
		if !ok && got != peer {
			t.Errorf("%v from nowhere", got)
		}
		if ok && !strings.Contains(strings.ToLower(first+second), got.Addr().String()) && !got.Addr().Is6() {
			t.Errorf("%v is not in %q, %q", got, first, second)
		}
	})
}
