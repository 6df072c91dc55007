package nginxconf

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
)

// levelIssuer is the level of the directives in acme_issuer.
const levelIssuer = "acme_issuer"

// The variables that stand for an issued certificate in ssl_certificate and ssl_certificate_key.
const (
	issuedVariable    = "$acme_certificate"
	issuedKeyVariable = "$acme_certificate_key"
)

func (t *translator) issuer(d *syntax.Directive) {
	name := d.Args[0]
	if slices.ContainsFunc(t.config.Issuers, func(i conf.Issuer) bool { return i.Name == name }) {
		t.errorf(d, "duplicate issuer %s", grammar.Quote(name))
		return
	}
	s := newScope(nil, levelIssuer, d.Block)
	i := conf.Issuer{
		Name: name, Pos: d.Place(), Challenge: "http-01", AcceptTerms: s.own("accept_terms_of_service") != nil,
		Insecure: !s.flag("ssl_verify", true), Trusted: t.trusted(s.own("ssl_trusted_certificate")),
		StateDir: t.path(d, "acme_"+name)}
	if i.Directory = s.word("uri"); s.one("uri") == nil {
		t.errorf(d, "missing uri")
	}
	for _, c := range s.own("contact") {
		i.Contacts = append(i.Contacts, contact(c.Args[0]))
	}
	if c := s.one("challenge"); c != nil {
		i.Challenge = t.challenge(c)
	}
	if k := s.one("external_account_key"); k != nil {
		if i.ExternalAccount = k.Args[0]; i.ExternalAccount == "" {
			t.errorf(k, "missing ID of the account")
		}
		if data, ok := strings.CutPrefix(k.Args[1], "data:"); ok {
			i.ExternalKey = data
		} else {
			i.ExternalKeyFile = t.confPath(k.Args[1])
		}
	}
	if p := s.one("state_path"); p != nil && p.Args[0] == "off" {
		i.StateDir = ""
	} else if p != nil {
		i.StateDir = t.path(p, p.Args[0])
	}
	if p := s.one("profile"); p != nil {
		i.Profile, i.RequireProfile = p.Args[0], len(p.Args) == 2
	}
	t.config.Issuers = append(t.config.Issuers, i)
}

// challenge translates the type of challenges, whose version may be missing.
func (t *translator) challenge(d *syntax.Directive) string {
	switch d.Args[0] {
	case "http-01", "http":
	case "tls-alpn-01", "tls-alpn":
		return "tls-alpn-01"
	case "dns-01", "dns":
		return "dns-01"
	default:
		t.errorf(d, "unknown challenge %s (must be http-01, tls-alpn-01 or, in programs with a DNS provider, dns-01)",
			grammar.Quote(d.Args[0]))
	}
	return "http-01"
}

// contact returns the URL of a contact. As in nginx, mailto: is assumed.
func contact(text string) string {
	end := strings.IndexFunc(text, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.", r)
	})
	if end > 0 && text[end] == ':' {
		return text
	}
	return "mailto:" + text
}

// keyType parses the type of a key, whose size may be missing. It returns false for any other text.
func keyType(text string) (string, bool) {
	switch text {
	case "ecdsa":
		return "ecdsa:256", true
	case "rsa":
		return "rsa:2048", true
	case "ecdsa:256", "ecdsa:384", "ecdsa:521", "rsa:2048", "rsa:3072", "rsa:4096":
		return text, true
	}
	return "", false
}

// issued translates the acme_certificate of a server; nil if the server has none, or does not use
// it.
func (t *translator) issued(s *scope) *conf.Issued {
	own := s.own("acme_certificate")
	certs, keys := s.all("ssl_certificate"), s.all("ssl_certificate_key")
	uses := false
	for i, c := range certs {
		if c.Args[0] != issuedVariable {
			continue
		}
		if i < len(keys) && keys[i].Args[0] != issuedKeyVariable {
			t.errorf(c, "%s requires ssl_certificate_key %s", issuedVariable, issuedKeyVariable)
		}
		if uses = true; own == nil && slices.Contains(s.own("ssl_certificate"), c) {
			t.errorf(c, "%s requires acme_certificate in the server", issuedVariable)
		}
	}
	if own == nil {
		return nil
	}
	d := own[0]
	issued := &conf.Issued{Issuer: d.Args[0]}
	if !slices.ContainsFunc(t.config.Issuers, func(i conf.Issuer) bool { return i.Name == issued.Issuer }) {
		t.errorf(d, "unknown issuer %s (an acme_issuer block defines one)", grammar.Quote(issued.Issuer))
	}
	for _, arg := range d.Args[1:] {
		if key, ok := strings.CutPrefix(arg, "key="); ok {
			if issued.Key, ok = keyType(key); !ok {
				t.errorf(d, "unknown key type %s (must be ecdsa:256, ecdsa:384, ecdsa:521, rsa:2048, rsa:3072 or rsa:4096)",
					grammar.Quote(key))
			}
			continue
		}
		issued.Names = appendIdentifier(issued.Names, arg)
	}
	if issued.Names == nil {
		issued.Names = t.identifiers(s)
	}
	if len(issued.Names) == 0 {
		t.errorf(d, "no names (list them, or add them to server_name)")
		return nil
	}
	if !uses {
		t.warn(d, "the certificate is not used, and not ordered: add \"ssl_certificate %s; ssl_certificate_key %s;\"",
			issuedVariable, issuedKeyVariable)
		return nil
	}
	return issued
}

// identifiers returns the names of a server that a certificate can have.
func (t *translator) identifiers(s *scope) (names []string) {
	for _, d := range s.own("server_name") {
		for _, name := range d.Args {
			switch {
			case name == "" || name == "_":
			case name[0] == '~':
				t.warn(d, "%s is not in the issued certificate: it is a regular expression", grammar.Quote(name))
			case name == "$hostname":
				names = appendIdentifier(names, t.hostname(d))
			default:
				names = appendIdentifier(names, name)
			}
		}
	}
	return names
}

// appendIdentifier appends a name to those of a certificate. As in nginx, a leading dot stands for
// the name with and without "www.", and IP addresses have their canonical form. In server_name those
// of IPv6 are in brackets.
func appendIdentifier(names []string, name string) []string {
	name = strings.ToLower(name)
	all := []string{name}
	if rest, ok := strings.CutPrefix(name, "."); ok {
		all = []string{"www." + rest, rest}
	} else if addr, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		all = []string{addr.String()}
	}
	for _, name := range all {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
