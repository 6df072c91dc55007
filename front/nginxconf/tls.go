package nginxconf

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"slices"
	"strings"

	"github.com/tarehq/tare/front"
)

// certificates are the files of a server's certificates, which belong to keys by their order.
func (t *translator) certificates(s *scope) []front.CertFiles {
	certs, keys := s.all("ssl_certificate"), s.all("ssl_certificate_key")
	if len(keys) < len(certs) {
		t.errorf(certs[len(keys)], "there is no ssl_certificate_key for it: want one for each certificate")
		return nil
	}
	var files []front.CertFiles
	for i, d := range certs {
		if t.plainFile(d) && t.plainFile(keys[i]) {
			files = append(files, front.CertFiles{Cert: t.confPath(d.args[0]), Key: t.confPath(keys[i].args[0])})
		}
	}
	return files
}

// plainFile reports whether a directive names a file as it is.
func (t *translator) plainFile(d *directive) bool {
	if hasVariable(d.args[0]) || strings.HasPrefix(d.args[0], "data:") || strings.HasPrefix(d.args[0], "engine:") || strings.HasPrefix(d.args[0], "store:") {
		t.refuse(d, "%s: want the name of a file, without variables", shown(d.args[0]))
		return false
	}
	return true
}

// read returns what is in the file that a directive names.
func (t *translator) read(d *directive) ([]byte, error) {
	b, err := t.source.read(t.confPath(d.args[0]))
	if err != nil {
		t.errorf(d, "%v", err)
	}
	return b, err
}

// protocols sets the versions that are spoken.
func (t *translator) protocols(s *scope, name string, config *tls.Config) {
	versions := map[string]uint16{"tlsv1": tls.VersionTLS10, "tlsv1.1": tls.VersionTLS11, "tlsv1.2": tls.VersionTLS12, "tlsv1.3": tls.VersionTLS13}
	var asked []uint16
	for _, d := range s.all(name) {
		for _, word := range d.args {
			v, ok := versions[strings.ToLower(word)]
			if !ok {
				t.warn(d, "%s is never spoken: it is not safe", word)
				continue
			}
			asked = append(asked, v)
		}
	}
	if d := s.one(name); d != nil && asked == nil {
		t.errorf(d, "none of these is spoken here: want TLSv1.2 or TLSv1.3")
		return
	} else if d == nil {
		return
	}
	config.MinVersion, config.MaxVersion = slices.Min(asked), slices.Max(asked)
	for v := config.MinVersion; v <= config.MaxVersion; v++ {
		if !slices.Contains(asked, v) {
			t.warn(s.one(name), "leaves out %s between others: it is spoken, too", tls.VersionName(v))
		}
	}
}

// curves sets those of key exchanges.
func (t *translator) curves(s *scope, config *tls.Config) {
	d := s.one("ssl_ecdh_curve")
	if d == nil || strings.EqualFold(d.args[0], "auto") {
		return
	}
	ids := map[string]tls.CurveID{
		"x25519": tls.X25519, "prime256v1": tls.CurveP256, "p-256": tls.CurveP256, "secp256r1": tls.CurveP256,
		"secp384r1": tls.CurveP384, "p-384": tls.CurveP384, "secp521r1": tls.CurveP521, "p-521": tls.CurveP521,
		"x25519mlkem768": tls.X25519MLKEM768,
	}
	for _, name := range strings.Split(d.args[0], ":") {
		id, ok := ids[strings.ToLower(name)]
		if !ok {
			t.omit(d, "%s is not in crypto/tls: want X25519, prime256v1, secp384r1, secp521r1 or X25519MLKEM768", shown(name))
			continue
		}
		config.CurvePreferences = append(config.CurvePreferences, id)
	}
}

// depth bounds how many certificates may be between the other side's and a trust anchor: 1, unless a directive says otherwise. As in
// OpenSSL only certificates that sign themselves are anchors: crypto/tls takes all that are trusted for such.
func depth(s *scope, name string, trusted []*x509.Certificate) func(tls.ConnectionState) error {
	most := 1
	if s.one(name) != nil {
		most = s.number(name)
	}
	return func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) == 0 || state.DidResume {
			return nil
		}
		for _, chain := range state.VerifiedChains {
			if n, ok := length(chain, trusted); ok && n-2 <= most {
				return nil
			}
		}
		return errTooDeep
	}
}

// length is that of a chain whose end is a trust anchor. It reports false if trusted certificates do not lead to one.
func length(chain, trusted []*x509.Certificate) (int, bool) {
	top := chain[len(chain)-1]
	for n := len(chain); n <= len(chain)+len(trusted); n++ {
		if bytes.Equal(top.RawIssuer, top.RawSubject) {
			return n, true
		}
		at := slices.IndexFunc(trusted, func(c *x509.Certificate) bool { return top.CheckSignatureFrom(c) == nil })
		if at < 0 {
			return n, false
		}
		top = trusted[at]
	}
	return 0, false
}

// errTooDeep ends handshakes with certificates that are too far from a trusted one.
var errTooDeep = errors.New("tls: the certificate's chain is too long, or does not end in a trusted root")

// ciphers sets the suites of TLS 1.2 and before. Those of TLS 1.3 cannot be chosen.
func (t *translator) ciphers(s *scope, name string, config *tls.Config) {
	d := s.one(name)
	if d == nil {
		return
	}
	suites, unknown := selectCiphers(d.args[0])
	if len(unknown) > 0 {
		t.note(d, "crypto/tls has none of %s", strings.Join(unknown, ", "))
	}
	if len(suites) == 0 && config.MinVersion < tls.VersionTLS13 {
		t.errorf(d, "crypto/tls has none of these: want such as HIGH, or ECDHE-RSA-AES128-GCM-SHA256")
	}
	config.CipherSuites = suites
}

// suite is one of crypto/tls, with the words by which OpenSSL's lists choose it.
type suite struct {
	id    uint16
	name  string // OpenSSL's
	words []string
	safe  bool
}

// suites are those of crypto/tls for TLS 1.2 and before, as OpenSSL names them.
func suites() []suite {
	var all []suite
	for _, c := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
		if !slices.Contains(c.SupportedVersions, tls.VersionTLS12) {
			continue
		}
		s := suite{id: c.ID, safe: !c.Insecure}
		exchange, cipher, _ := strings.Cut(strings.TrimPrefix(c.Name, "TLS_"), "_WITH_")
		s.name, s.words = openssl(exchange, cipher)
		all = append(all, s)
	}
	return all
}

// openssl is how OpenSSL calls a suite, and the groups that it is in.
func openssl(exchange, cipher string) (name string, words []string) {
	parts := strings.Split(cipher, "_") // AES 128 GCM SHA256; CHACHA20 POLY1305 SHA256; 3DES EDE CBC SHA; RC4 128 SHA
	hash := parts[len(parts)-1]
	words = []string{"ALL", hash}
	if hash == "SHA" {
		words = append(words, "SHA1")
	}
	if exchange == "RSA" {
		words = append(words, "RSA", "kRSA", "aRSA")
	} else {
		words = append(words, "ECDHE", "EECDH", "kEECDH", "kECDHE", "ECDH", "a"+strings.TrimPrefix(exchange, "ECDHE_"))
		name = strings.ReplaceAll(exchange, "_", "-") + "-"
		if strings.HasSuffix(exchange, "ECDSA") {
			words = append(words, "ECDSA")
		} else {
			words = append(words, "RSA")
		}
	}
	switch parts[0] {
	case "AES":
		size := parts[1]
		words = append(words, "AES", "AES"+size, "HIGH", "DEFAULT")
		if name += "AES" + size; parts[2] == "GCM" {
			name += "-GCM"
			words = append(words, "AESGCM")
		}
	case "CHACHA20":
		return name + "CHACHA20-POLY1305", append(words, "CHACHA20", "HIGH", "DEFAULT")
	case "3DES":
		return name + "DES-CBC3-SHA", append(words, "3DES", "MEDIUM")
	default:
		return name + "RC4-SHA", append(words, "RC4", "MEDIUM")
	}
	return name + "-" + hash, words
}

// selectCiphers does what a list in OpenSSL's language says: names and groups, of which "+" means those in both, behind "!" for never,
// "-" for not, or "+" for later, which means nothing here. A group stands for those suites that crypto/tls takes for safe.
// It also returns the names of single suites that are not there.
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
				never = append(never, s.id)
			case op == '-':
				chosen = slices.DeleteFunc(chosen, func(id uint16) bool { return id == s.id })
			case op != '+' && (s.safe || s.name == word) && !slices.Contains(chosen, s.id):
				chosen = append(chosen, s.id)
			}
		}
		if !found && strings.Count(word, "-") > 1 && op != '!' && op != '-' {
			unknown = append(unknown, word)
		}
	}
	return slices.DeleteFunc(chosen, func(id uint16) bool { return slices.Contains(never, id) }), unknown
}

// in reports whether a suite is called that, or is in all of the groups.
func (s *suite) in(word string) bool {
	if s.name == word {
		return true
	}
	for _, group := range strings.Split(word, "+") {
		if !slices.Contains(s.words, group) {
			return false
		}
	}
	return true
}
