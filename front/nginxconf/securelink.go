package nginxconf

import (
	"github.com/tarehq/tare/front/conf"
)

// secureLink translates secure_link, secure_link_md5 and secure_link_secret. A block with the
// secret alone inherits none of the other two, and a block with one of them inherits no secret.
func (t *translator) secureLink(s *scope) *conf.SecureLink {
	holder := s.holder("secure_link", "secure_link_md5", "secure_link_secret")
	if holder == nil {
		return nil
	}
	link, sum, secret := holder.own("secure_link"), holder.own("secure_link_md5"), holder.own("secure_link_secret")
	if secret != nil {
		if link != nil || sum != nil {
			t.errorf(secret[0], "cannot be combined with secure_link or secure_link_md5")
		}
		if secret[0].Args[0] == "" {
			t.errorf(secret[0], "empty secret: anybody could create links")
		}
		return &conf.SecureLink{Secret: secret[0].Args[0]}
	}
	l := conf.SecureLink{}
	if outer := t.secureLink(holder.outer); outer != nil {
		l.Link, l.MD5 = outer.Link, outer.MD5
	}
	for _, d := range link {
		l.Link = t.text(d, d.Args[0])
	}
	for _, d := range sum {
		l.MD5 = t.text(d, d.Args[0])
	}
	return &l
}

// completeLink returns the check of links; nil if secure_link or secure_link_md5 is missing. As in
// nginx no link is valid then.
func (t *translator) completeLink(s *scope) *conf.SecureLink {
	l := t.secureLink(s)
	if l == nil || l.Secret == "" && (l.Link == "" || l.MD5 == "") {
		return nil
	}
	return l
}
