package htpasswd

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/tarehq/tare/internal/testkit"
)

// A file that changes is read again. Users with unsupported hashes cannot log in, and reading the
// file logs them.
func TestChangedPasswordFileIsRead(t *testing.T) {
	name := filepath.Join(t.TempDir(), "passwords")
	write := func(text string) {
		t.Helper()
		testkit.Must(t, os.WriteFile(name, []byte(text), 0o600))
	}
	all := New()
	var warnings []string
	right := func(word string) bool {
		t.Helper()
		f := testkit.Value(all.Open(name, func(err error) { warnings = append(warnings, err.Error()) }))(t)
		return testkit.Value(all.Verify(t.Context(), f, "a", word))(t)
	}
	write("a:{PLAIN}one\r\n")
	if !right("one") || right("two") {
		t.Error("the password is not that of the file")
	}
	write("a:{PLAIN}two and longer\n")
	testkit.WaitFor(t, "the new file", func() bool { return right("two and longer") })
	write("b:{PLAIN}x\na:$7$x$y\na:{PLAIN}two and longer\nc:\n")
	testkit.WaitFor(t, "the user with an unsupported hash", func() bool { return !right("two and longer") })
	const want = `line 2: user "a" cannot log in: `
	if right("x") || right("") || len(warnings) != 1 || !strings.Contains(warnings[0], want) ||
		!strings.HasSuffix(warnings[0], "; and 1 more") {
		t.Errorf("warnings: %q, want one with %q", warnings, want)
	}
}

// A slow hash is computed once per correct password, and the memory for this is bounded.
func TestCorrectPasswordIsHashedOnce(t *testing.T) {
	hash := testkit.Value(bcrypt.GenerateFromPassword([]byte("word"), bcrypt.MinCost))(t)
	f := parse("a:" + string(hash))
	all := New()
	verify := func(name, word string) bool {
		return testkit.Value(all.Verify(t.Context(), f, name, word))(t)
	}
	if !verify("a", "word") || verify("a", "other") || verify("b", "word") || all.verified.Len() != 1 {
		t.Errorf("%d are remembered", all.verified.Len())
	}
	for range cap(all.hashSlots) {
		all.hashSlots <- struct{}{} // all slots are in use
	}
	testkit.Equal(t, verify("a", "word"), true, "without another computation")
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	testkit.Fails(all.Verify(ctx, f, "a", "other"))(t, "", "the client has left, and the request waits")
	for i := range 2 * maxVerified {
		all.verified.Add([32]byte{byte(i), byte(i >> 8)}, struct{}{})
		if i%1000 == 0 && !verify("a", "word") { // all slots are in use
			t.Fatal("the password in use was dropped")
		}
	}
	testkit.Equal(t, all.verified.Len(), maxVerified, "passwords that are remembered")
}

func FuzzPasswords(f *testing.F) {
	f.Add("a:b\n#c\nd:$apr1$x$y:z\r\n", "word")
	f.Add("a:$2y$04$\nb:{SSHA}AAAA\nc:{SHA}\n:\n", "")
	f.Fuzz(func(t *testing.T, text, word string) {
		p := parse(text)
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

// The hashes are those of openssl and htpasswd.
func TestKnownHashesMatch(t *testing.T) {
	for _, c := range []struct{ hash, word string }{
		{"$apr1$abcdefgh$cy3DSYyOwfhsyu7QOMQzd.", "hello"},
		{"$apr1$MDpWqFDF$IlOkiqUYpkotKAohanKJN0", ""},
		{"$apr1$x$MAXlATTZh0qXldws2JUsQ0", "a longer password than sixteen bytes, and more"},
		{"$1$salt$qJH7.N4xYta3aEG/dfqo/0", "password"},
		{"$1$abcdefgh$tG/BCSXBn.FDxuUQBJf7Q.", "a longer pass word with more than sixteen bytes"},
		{"{SHA}qvTGHdzF6KLavt4PO0gs2a6pQ00=", "hello"},
		{"{SSHA}cyy1DSsp8htHWuMRIU8YoBan9yBzYWx0", "x"},
		{"{PLAIN}a:b", "a:b"},
		{"$6$abcdefgh$xipHhw9/NU1ASPvh9yHqieZTU/wnHyMSOZS8m4xkh3DunUWS9aWU6YyGCVH6.orJUrRcjNuTwSSMmBOVdkdOl0", "se cret"},
		{"$6$rounds=2000$abcdefgh$lqXzcKuTDI0xEwT4ESDiJHzusKFn4q93OWhvIUZ0DJJ0dR0iTbhK30UOQc48zKHEvpFLKtXp9STF7SAmKexma.", "se cret"},
		{"$5$abcdefgh$R.O4v3YfCsHKLE1odnRJ9V3X46Hup06XNkuWBVbgro3", "se cret"},
	} {
		testkit.Equal(t, hashMatches(c.hash, c.word), true, c.hash, c.word)
		testkit.Equal(t, hashMatches(c.hash, c.word+"x"), false, c.hash, c.word+"x")
	}
	for hash, why := range map[string]string{
		"$6$salt": "incomplete", "$5$rounds=9999999$a$b": "rounds", "$6$rounds=x$a$b": "rounds",
		"$7$salt$hash": "$7$", "rqXexS6ZhobKA": "crypt", "": "unsupported hash", "$2y$31$" +
			strings.Repeat("a", 53): "bcrypt cost 31", "$2": "bcrypt",
	} {
		testkit.Fails(parseHash(hash))(t, why, hash)
		testkit.Equal(t, hashMatches(hash, "x"), false, hash)
	}
	for _, hash := range []string{"{SSHA}AAAA", "{SSHA}", "{SSHA}!", "{SHA}!", "{SHA}"} { // they match nothing
		testkit.Equal(t, hashMatches(hash, ""), false, hash)
	}
}
