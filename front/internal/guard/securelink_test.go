package guard

import (
	"crypto/md5"
	"fmt"
	"testing"
)

// A sum followed by anything is invalid.
func TestSecureLinkSumMustBeComplete(t *testing.T) {
	l := &secureLink{secret: "s"}
	sum := fmt.Sprintf("%x", md5.Sum([]byte("file"+l.secret)))
	for text, want := range map[string]string{sum: "file", sum + "zz": "", sum + "0": "", sum + "00": "",
		sum[:30]: "", sum[2:]: "", "": ""} {
		if got := l.bySecret("/p/" + text + "/file"); got != want {
			t.Errorf("%q: link %q, want %q", text, got, want)
		}
	}
}
