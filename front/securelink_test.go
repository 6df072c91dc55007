package front_test

import (
	"crypto/md5"
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/guard"
)

// Other cases are in the corpus, beside nginx, except times that are near, and sums with line ends, which a decoded path may have.
func TestSecureLinkIsChecked(t *testing.T) {
	config := func(l *conf.SecureLink, want conf.Text) conf.Config {
		return conf.Config{Hosts: []conf.Host{{Locations: []conf.Location{{Path: "/",
			Steps:    []conf.Step{conf.Return{Status: 200, Text: want}},
			Settings: &conf.Settings{SecureLink: l}, Pos: "nginx.conf:7"}}}}}
	}
	c := config(&conf.SecureLink{Link: "$arg_md5,$arg_expires", MD5: "$secure_link_expires secret"},
		"[$secure_link] [$secure_link_expires]")
	h := newFront(t, c)
	for want, until := range map[string]int64{"[1] [%d]": time.Now().Add(time.Hour).Unix(),
		"[0] [%d]": time.Now().Add(-time.Second).Unix() - 1} {
		sum := md5.Sum(fmt.Appendf(nil, "%d secret", until))
		target := fmt.Sprintf("/?md5=%s&expires=%d", base64.RawURLEncoding.EncodeToString(sum[:]), until)
		if got, want := get(t, h, target), fmt.Sprintf(want, until); got.body != want {
			t.Errorf("%s: %s, want %s", target, got.body, want)
		}
	}
	sum := md5.Sum([]byte("x"))
	for _, text := range []string{"\n", "\r", "\r\n", "\n\n"} {
		digits := base64.RawURLEncoding.EncodeToString(sum[:])
		if digits = digits[:5] + text + digits[5:]; guard.IsLinkSum(digits, "x") {
			t.Errorf("%q is accepted as a sum", digits)
		}
	}
}
