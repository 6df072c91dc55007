package nginxconf

import (
	"net/netip"
	"net/url"
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
	s := newScope(nil, levelIssuer, d.Block)
	i := conf.Issuer{
		Name: d.Args[0], Pos: d.Place(), Directory: s.word("uri"), Challenge: "http-01",
		AcceptTerms: s.own("accept_terms_of_service") != nil, Insecure: !s.flag("ssl_verify", true),
		Trusted: t.trusted(s.own("ssl_trusted_certificate")), StateDir: t.path(d, "acme_"+d.Args[0]),
		PreferredChain: s.word("preferred_chain")}
	for _, c := range s.own("contact") {
		i.Contacts = append(i.Contacts, contact(c.Args[0]))
	}
	if c := s.word("challenge"); c != "" { // whose version may be missing
		i.Challenge = strings.TrimSuffix(strings.ToLower(c), "-01") + "-01"
	}
	if k := s.one("account_key"); k != nil {
		if kind, _, _ := strings.Cut(k.Args[0], ":"); kind == "ecdsa" || kind == "rsa" {
			i.AccountKey = k.Args[0]
		} else if t.plainFile(k) {
			i.AccountKeyFile = t.confPath(k.Args[0])
		}
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
		t.omit(p, "off is not supported (name a folder: each start would order anew)")
	} else if p != nil {
		i.StateDir = t.path(p, p.Args[0])
	}
	if p := s.one("profile"); p != nil {
		i.Profile, i.RequireProfile = p.Args[0], len(p.Args) == 2
	}
	t.config.Issuers = append(t.config.Issuers, i)
}

// contact returns the URL of a contact. As in nginx, mailto: is assumed.
func contact(text string) string {
	if u, err := url.Parse(text); err == nil && u.Scheme != "" {
		return text
	}
	return "mailto:" + text
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
			issued.Key = key
			continue
		}
		issued.Names = appendIdentifier(issued.Names, arg)
	}
	if issued.Names == nil {
		issued.Names = t.identifiers(s)
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
