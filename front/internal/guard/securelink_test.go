package guard

import (
	"crypto/md5"
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/tarehq/tare/internal/testkit"
)

// A sum followed by anything is invalid, as is one with line ends, which a decoded path may have and
// encoding/base64 ignores.
func TestSecureLinkSumIsExact(t *testing.T) {
	l := &secureLink{secret: "s"}
	sum := fmt.Sprintf("%x", md5.Sum([]byte("file"+l.secret)))
	for text, want := range map[string]string{sum: "file", sum + "zz": "", sum + "0": "", sum + "00": "",
		sum[:30]: "", sum[2:]: "", "": ""} {
		testkit.Equal(t, l.bySecret("/p/"+text+"/file"), want, text)
	}
	binary := md5.Sum([]byte("x"))
	digits := base64.RawURLEncoding.EncodeToString(binary[:])
	for _, text := range []string{"", "\n", "\r", "\r\n", "\n\n"} {
		testkit.Equal(t, isLinkSum(digits[:5]+text+digits[5:], "x"), text == "", text)
	}
}
