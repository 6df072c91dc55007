package nginxconf

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/clientcert"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/nginxconf/internal/syntax"
)

// certificates returns the files of a server's certificates and keys, paired by their order. Those
// that variables of ACME stand for have none: see issued.
func (t *translator) certificates(s *scope) []conf.CertFiles {
	certs, keys := s.all("ssl_certificate"), s.all("ssl_certificate_key")
	if len(keys) < len(certs) {
		t.errorf(certs[len(keys)], "missing ssl_certificate_key: each certificate requires one")
		return nil
	}
	var files []conf.CertFiles
	passwords := t.passwords(s, "ssl_password_file")
	for i, d := range certs {
		if d.Args[0] == issuedVariable {
			continue
		}
		if t.plainFile(d) && t.plainFile(keys[i]) {
			files = append(files, conf.CertFiles{Cert: t.confPath(d.Args[0]), Key: t.confPath(keys[i].Args[0]),
				Passwords: passwords})
		}
	}
	return files
}

// plainFile reports whether a directive names a file without variables.
func (t *translator) plainFile(d *syntax.Directive) bool {
	if hasVariable(d.Args[0]) || strings.HasPrefix(d.Args[0], "data:") || strings.HasPrefix(d.Args[0], "engine:") ||
		strings.HasPrefix(d.Args[0], "store:") {
		t.reject(d, "%s is not supported (use the name of a file, without variables)", grammar.Quote(d.Args[0]))
		return false
	}
	return true
}

func (t *translator) read(d *syntax.Directive) ([]byte, error) {
	b, err := t.source.Read(t.confPath(d.Args[0]))
	t.check(d, err)
	return b, err
}

func (t *translator) protocols(s *scope, name string, config *tls.Config) {
	versions := map[string]uint16{"tlsv1": tls.VersionTLS10, "tlsv1.1": tls.VersionTLS11, "tlsv1.2": tls.VersionTLS12,
		"tlsv1.3": tls.VersionTLS13}
	var enabled []uint16
	for _, d := range s.all(name) {
		for _, word := range d.Args {
			v, ok := versions[strings.ToLower(word)]
			if !ok {
				t.warn(d, "%s is ignored: it is insecure", word)
				continue
			}
			enabled = append(enabled, v)
		}
	}
	if d := s.one(name); d != nil && enabled == nil {
		t.errorf(d, "no supported version (use TLSv1.2 or TLSv1.3)")
		return
	} else if d == nil {
		return
	}
	config.MinVersion, config.MaxVersion = slices.Min(enabled), slices.Max(enabled)
	for v := config.MinVersion; v <= config.MaxVersion; v++ {
		if !slices.Contains(enabled, v) {
			t.warn(s.one(name), "%s cannot be left out between other versions: it stays enabled", tls.VersionName(v))
		}
	}
}

func (t *translator) curves(s *scope, config *tls.Config) {
	d := s.one("ssl_ecdh_curve")
	if d == nil || strings.EqualFold(d.Args[0], "auto") {
		return
	}
	ids := map[string]tls.CurveID{
		"x25519": tls.X25519, "prime256v1": tls.CurveP256, "p-256": tls.CurveP256, "secp256r1": tls.CurveP256,
		"secp384r1": tls.CurveP384, "p-384": tls.CurveP384, "secp521r1": tls.CurveP521, "p-521": tls.CurveP521,
		"x25519mlkem768": tls.X25519MLKEM768,
	}
	for _, name := range strings.Split(d.Args[0], ":") {
		id, ok := ids[strings.ToLower(name)]
		if !ok {
			t.omit(d,
				"%s is not supported by crypto/tls (use X25519, prime256v1, secp384r1, secp521r1 or X25519MLKEM768)",
				grammar.Quote(name))
			continue
		}
		config.CurvePreferences = append(config.CurvePreferences, id)
	}
}

// chains verifies the certificate chains of an upstream. It limits the number of certificates
// between the upstream's and a trust anchor, 1 by default, and looks them up in revocation lists,
// if there are any.
func chains(s *scope, depth string, lists []*x509.RevocationList) func(tls.ConnectionState) error {
	most := 1
	if s.one(depth) != nil {
		most = s.number(depth, 0)
	}
	return func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) == 0 || state.DidResume {
			return nil
		}
		reason := ""
		for _, chain := range state.VerifiedChains {
			if reason = clientcert.ChainError(chain, most, lists, time.Now()); reason == "" {
				return nil
			}
		}
		return errors.New("tls: " + reason)
	}
}

// ciphers sets the cipher suites up to TLS 1.2. Those of TLS 1.3 cannot be chosen.
func (t *translator) ciphers(s *scope, name string, config *tls.Config) {
	d := s.one(name)
	if d == nil {
		return
	}
	suites, unknown := selectCiphers(d.Args[0])
	if len(unknown) > 0 {
		t.remark(d, "crypto/tls does not support %s", strings.Join(unknown, ", "))
	}
	if len(suites) == 0 && config.MinVersion < tls.VersionTLS13 {
		t.errorf(d, "crypto/tls supports none of these (examples: HIGH, ECDHE-RSA-AES128-GCM-SHA256)")
	}
	config.CipherSuites = suites
}

// suite is a cipher suite of crypto/tls, with OpenSSL's name and groups.
type suite struct {
	*tls.CipherSuite
	name   string
	groups string // with a space before and after each
}

// suites returns crypto/tls's cipher suites up to TLS 1.2.
func suites() (all []suite) {
	for _, c := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		if slices.Contains(c.SupportedVersions, tls.VersionTLS12) {
			name := grammar.CipherName(c.ID)
			all = append(all, suite{c, name, cipherGroups(name)})
		}
	}
	return all
}

// cipherGroups returns the groups of a suite: see openssl-ciphers(1). SHA256 and others are those by
// which messages are authenticated, which AESGCM and CHACHA20 do not need.
func cipherGroups(name string) string {
	groups := " ALL "
	if !strings.HasPrefix(name, "ECDHE-") {
		groups += "RSA kRSA aRSA "
	}
	for part := range strings.SplitSeq(name, "-") {
		switch part {
		case "ECDHE":
			groups += "ECDHE EECDH kEECDH kECDHE ECDH "
		case "ECDSA":
			groups += "ECDSA aECDSA "
		case "RSA":
			groups += "aRSA "
		case "AES128", "AES256":
			groups += "AES " + part + " HIGH DEFAULT "
		case "GCM":
			return groups + "AESGCM "
		case "CHACHA20":
			groups += "CHACHA20 HIGH DEFAULT "
		case "DES":
			groups += "3DES MEDIUM "
		case "RC4":
			groups += "RC4 MEDIUM "
		case "SHA":
			groups += "SHA SHA1 "
		case "SHA256":
			groups += "SHA256 "
		}
	}
	return groups
}

// selectCiphers evaluates an OpenSSL cipher list: names and groups, where "+" combines groups. "!"
// excludes for good, "-" removes, and a leading "+" has no effect here. A group selects the suites
// that crypto/tls considers safe. selectCiphers also returns the names of unknown single suites.
func selectCiphers(text string) (ids []uint16, unknown []string) {
	all := suites()
	var chosen, never []uint16
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(":, ;", r) }) {
		op := word[0]
		if strings.ContainsRune("!-+", rune(op)) {
			word = word[1:]
		}
		found := false
		for _, s := range all {
			if !s.in(word) {
				continue
			}
			found = true
			switch {
			case op == '!':
				never = append(never, s.ID)
			case op == '-':
				chosen = slices.DeleteFunc(chosen, func(id uint16) bool { return id == s.ID })
			case op != '+' && (!s.Insecure || s.name == word) && !slices.Contains(chosen, s.ID):
				chosen = append(chosen, s.ID)
			}
		}
		if !found && strings.Count(word, "-") > 1 && op != '!' && op != '-' {
			unknown = append(unknown, word)
		}
	}
	return slices.DeleteFunc(chosen, func(id uint16) bool { return slices.Contains(never, id) }), unknown
}

// in reports whether a word is the suite's name, or whether the suite is in all of its groups.
func (s *suite) in(word string) bool {
	if s.name == word {
		return true
	}
	for group := range strings.SplitSeq(word, "+") {
		if !strings.Contains(s.groups, " "+group+" ") {
			return false
		}
	}
	return true
}

const (
	// builtinSessions is the number of sessions of ssl_session_cache builtin without one, as in
	// OpenSSL, and sessionBytes the memory that each takes.
	builtinSessions = 20480
	sessionBytes    = 512
	// the sizes of a file of ssl_session_ticket_key: AES-128 and AES-256
	ticketKeySize, longTicketKeySize = 48, 80
)

// sessions translates how TLS sessions are resumed: by tickets, or with ssl_session_tickets off
// from ssl_session_cache, if there is one.
func (t *translator) sessions(s *scope, l *conf.Listen) {
	l.TicketKeys = t.ticketKeys(s)
	l.SessionTimeout = s.time("ssl_session_timeout")
	if d := s.one("ssl_session_cache"); d != nil {
		t.sessionCache(d, l)
	}
	if s.flag("ssl_session_tickets", true) {
		l.SessionCache, l.SessionCacheBytes = "", 0
	}
}

func (t *translator) sessionCache(d *syntax.Directive, l *conf.Listen) {
	for _, arg := range d.Args {
		kind, rest, _ := strings.Cut(arg, ":")
		switch kind {
		case "off", "none":
			l.SessionCache = ""
		case "builtin":
			number, err := builtinSessions, error(nil)
			if arg != kind {
				number, err = strconv.Atoi(rest)
			}
			if err != nil || number < 0 {
				t.errorf(d, "invalid number of sessions %s (example: builtin:1000)", grammar.Quote(arg))
			}
			if number == 0 { // no limit
				number = builtinSessions
			}
			if !strings.HasPrefix(l.SessionCache, "shared:") { // which has precedence
				l.SessionCache, l.SessionCacheBytes = "builtin:"+d.Where(), int64(number)*sessionBytes
			}
		case "shared":
			name, size, _ := strings.Cut(rest, ":")
			n, err := grammar.ParseSize(size)
			switch {
			case err != nil || name == "":
				t.errorf(d, "invalid cache %s (must be shared:NAME:SIZE, such as shared:tls:1m)", grammar.Quote(arg))
			case n < minZone:
				t.errorf(d, "%s is too small (at least shared:%s:32k)", grammar.Quote(arg), name)
			}
			l.SessionCache, l.SessionCacheBytes = "shared:"+name, n
		}
	}
}

// ticketKeys reads the keys of tickets. The first one encrypts. crypto/tls derives its own keys
// from 32 bytes: tickets are not those of an nginx with the same files.
func (t *translator) ticketKeys(s *scope) (keys [][32]byte) {
	for _, d := range s.all("ssl_session_ticket_key") {
		b, err := t.read(d)
		if err != nil {
			return nil
		}
		if len(b) != ticketKeySize && len(b) != longTicketKeySize {
			t.errorf(d, "%s has %d bytes, but %d or %d required (openssl rand %d)", grammar.Quote(d.Args[0]), len(b),
				ticketKeySize, longTicketKeySize, longTicketKeySize)
			return nil
		}
		keys = append(keys, sha256.Sum256(b))
	}
	return keys
}
