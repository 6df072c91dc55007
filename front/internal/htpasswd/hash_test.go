package htpasswd

import (
	"strings"
	"testing"
)

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
		if !hashMatches(c.hash, c.word) {
			t.Errorf("%s does not match %q", c.hash, c.word)
		}
		if hashMatches(c.hash, c.word+"x") {
			t.Errorf("%s matches %q, too", c.hash, c.word+"x")
		}
	}
	for hash, why := range map[string]string{
		"$6$salt": "incomplete", "$5$rounds=9999999$a$b": "rounds", "$6$rounds=x$a$b": "rounds",
		"$7$salt$hash": "$7$", "rqXexS6ZhobKA": "crypt", "": "unsupported hash", "$2y$31$" +
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
