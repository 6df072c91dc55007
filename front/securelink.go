package front

import (
	"crypto/md5" // nginx's secure_link requires MD5
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/tarehq/tare/front/conf"
)

// secureLinkModule checks links: secure_link, secure_link_md5 and secure_link_secret.
func secureLinkModule() module {
	return module{
		compile: func(c *compiler, s *conf.Settings, _ slot) (e effect, err error) {
			if s.SecureLink != nil {
				e.rules, err = c.secureLink(s.SecureLink)
			}
			return e, err
		},
		variables: func(at slot) map[string]knownVariable {
			return map[string]knownVariable{
				"secure_link": {isCached: true, get: func(x *exchange) string {
					l, _ := x.moduleRules(at).(*secureLink)
					return l.check(x)
				}},
				"secure_link_expires": {get: noVariable, isCached: true},
			}
		},
	}
}

// secureLink is a SecureLink, compiled.
type secureLink struct {
	link, md5 text
	secret    string // replaces both
	expires   int    // the slot of $secure_link_expires
}

// secureLink compiles a SecureLink.
func (c *compiler) secureLink(from *conf.SecureLink) (*secureLink, error) {
	if both, secret := from.Link != "" && from.MD5 != "", from.Secret != ""; both == secret || !both &&
		from.Link+from.MD5 != "" {
		return nil, errors.New("secure link: want Link and MD5, or Secret")
	}
	l := &secureLink{secret: from.Secret, expires: c.slotOf("secure_link_expires")}
	var err error
	if l.link, err = c.text(from.Link); err == nil {
		l.md5, err = c.text(from.MD5)
	}
	return l, err
}

// check returns $secure_link; nil checks no links. As in nginx it also sets $secure_link_expires,
// which is empty before.
func (l *secureLink) check(x *exchange) string {
	switch {
	case l == nil:
		return ""
	case l.secret != "":
		return l.bySecret(requestURI(x))
	}
	sum, expires, limited := strings.Cut(l.link.eval(x), ",")
	until := int64(0)
	if limited {
		n, err := strconv.ParseUint(expires, 10, 63)
		if err != nil || n == 0 {
			return ""
		}
		if until = int64(n); !x.has(l.expires) {
			x.set(l.expires, expires)
		}
	}
	switch {
	case !isLinkSum(sum, l.md5.eval(x)):
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
