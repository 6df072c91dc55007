package nginxconf

import "github.com/tarehq/tare/front"

// secureLink translates secure_link, secure_link_md5 and secure_link_secret. Who has the secret alone inherits none of the other two,
// and who has one of them inherits no secret.
func (t *translator) secureLink(s *scope) *front.SecureLink {
	holder := s.holder("secure_link", "secure_link_md5", "secure_link_secret")
	if holder == nil {
		return nil
	}
	link, sum, secret := holder.own("secure_link"), holder.own("secure_link_md5"), holder.own("secure_link_secret")
	if secret != nil {
		if link != nil || sum != nil {
			t.errorf(secret[0], "is beside secure_link or secure_link_md5: want them, or the secret")
		}
		if secret[0].args[0] == "" {
			t.errorf(secret[0], "is empty: anybody could make links")
		}
		return &front.SecureLink{Secret: secret[0].args[0]}
	}
	l := front.SecureLink{}
	if outer := t.secureLink(holder.outer); outer != nil {
		l.Link, l.MD5 = outer.Link, outer.MD5
	}
	for _, d := range link {
		l.Link = t.text(d, d.args[0])
	}
	for _, d := range sum {
		l.MD5 = t.text(d, d.args[0])
	}
	return &l
}

// completeLink is how links are checked. Without one of secure_link and secure_link_md5 none is good, as in nginx.
func (t *translator) completeLink(s *scope) *front.SecureLink {
	l := t.secureLink(s)
	if l == nil || l.Secret == "" && (l.Link == "" || l.MD5 == "") {
		return nil
	}
	return l
}
