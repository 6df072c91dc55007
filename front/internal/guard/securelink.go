package guard

import (
	"crypto/md5" // nginx's secure_link requires MD5
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"strconv"
	"strings"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
)

// SecureLinkModule checks links: secure_link, secure_link_md5 and secure_link_secret.
func SecureLinkModule() core.Module {
	return core.Module{
		Compile: func(c *core.Compiler, s *conf.Settings, _ core.Slot) (e core.Effect) {
			if s.SecureLink != nil {
				e.Rules = compileSecureLink(c, s.SecureLink)
			}
			return e
		},
		Variables: func(at core.Slot) map[string]core.KnownVariable {
			return map[string]core.KnownVariable{
				"secure_link": {IsCached: true, Get: func(x *core.Exchange) string {
					l, _ := x.ModuleRules(at).(*secureLink)
					return l.check(x)
				}},
				"secure_link_expires": {Get: core.NoVariable, IsCached: true},
			}
		},
	}
}

type secureLink struct {
	link, md5 core.Text
	secret    string // replaces both
	expires   int    // the slot of $secure_link_expires
}

func compileSecureLink(c *core.Compiler, from *conf.SecureLink) *secureLink {
	if both, secret := from.Link != "" && from.MD5 != "", from.Secret != ""; both == secret || !both &&
		from.Link+from.MD5 != "" {
		c.Failf("secure link: want Link and MD5, or Secret")
	}
	return &secureLink{link: c.Text("secure_link", from.Link), md5: c.Text("secure_link_md5", from.MD5),
		secret: from.Secret, expires: c.SlotOf("secure_link_expires")}
}

// check returns $secure_link; nil checks no links. As in nginx it also sets $secure_link_expires,
// which is empty before.
func (l *secureLink) check(x *core.Exchange) string {
	switch {
	case l == nil:
		return ""
	case l.secret != "":
		return l.bySecret(core.RequestURI(x))
	}
	sum, expires, limited := strings.Cut(l.link.Eval(x), ",")
	until := int64(0)
	if limited {
		n, err := strconv.ParseUint(expires, 10, 63)
		if err != nil || n == 0 {
			return ""
		}
		if until = int64(n); !x.Has(l.expires) {
			x.Set(l.expires, expires)
		}
	}
	switch {
	case !isLinkSum(sum, l.md5.Eval(x)):
		return ""
	case limited && until < time.Now().Unix():
		return "0"
	}
	return "1"
}

// isLinkSum reports whether a link's sum is that of a text. It compares in constant time.
func isLinkSum(sum, of string) bool {
	const padded = 24                                          // digits of 16 bytes, with padding
	if len(sum) > padded || strings.ContainsAny(sum, "\r\n") { // which the decoder would ignore
		return false
	}
	digits, _, _ := strings.Cut(sum, "=")
	decoded, err := base64.RawURLEncoding.DecodeString(digits)
	want := md5.Sum([]byte(of))
	return err == nil && subtle.ConstantTimeCompare(decoded, want[:]) == 1
}

// bySecret returns the link of a URI "/prefix/sum/link" if the sum is that of the link and the
// secret, else "".
func (l *secureLink) bySecret(uri string) string {
	if uri == "" {
		return ""
	}
	_, rest, _ := strings.Cut(uri[1:], "/")
	digits, link, _ := strings.Cut(rest, "/")
	sum, err := hex.DecodeString(digits)
	want := md5.Sum([]byte(link + l.secret))
	if err != nil || subtle.ConstantTimeCompare(sum, want[:]) != 1 {
		return ""
	}
	return link
}
