package ab

import (
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/netip"
	"strings"
	"sync"
)

type session struct {
	once           sync.Once
	protocol, temp string // in ab's format
}

// setProtocol implements -f: it restricts TLS to one version.
func (c *Command) setProtocol(name string) error {
	versions := map[string]uint16{"TLS1": tls.VersionTLS10, "TLS1.1": tls.VersionTLS11, "TLS1.2": tls.VersionTLS12,
		"TLS1.3": tls.VersionTLS13}
	if strings.EqualFold(name, "ALL") {
		return nil
	}
	v, ok := versions[strings.ToUpper(name)]
	if !ok {
		return fmt.Errorf("%q: want TLS1, TLS1.1, TLS1.2, TLS1.3 or ALL", name)
	}
	c.tls.MinVersion, c.tls.MaxVersion = v, v
	return nil
}

// setCertificate implements -E: a file with the client's certificates and key.
func (c *Command) setCertificate(file string) error {
	pair, err := tls.LoadX509KeyPair(file, file)
	c.tls.Certificates = []tls.Certificate{pair}
	return err
}

// tlsConfig returns ab's TLS configuration, which verifies no certificate.
func (c *Command) tlsConfig() *tls.Config {
	config := c.tls.Clone()
	config.InsecureSkipVerify = true
	config.ServerName = c.serverName()
	if config.ServerName == "" {
		config.ServerName = c.server.Hostname() // an IP address, which SNI omits
	}
	if config.MinVersion == 0 {
		config.MinVersion = tls.VersionTLS10
	}
	// These are the curves that OpenSSL 3.0 offers, the library of ab.
	config.CurvePreferences = []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP521, tls.CurveP384}
	config.VerifyConnection = func(s tls.ConnectionState) error {
		c.session.once.Do(func() { c.session.protocol, c.session.temp = protocolLine(&s), tempKey(s.CurveID) })
		return nil
	}
	return config
}

// serverName returns the name for SNI, which never holds an IP address.
func (c *Command) serverName() string {
	name := c.server.Hostname()
	if host, ok := c.headerValue("Host"); ok {
		name = host
	}
	if _, err := netip.ParseAddr(name); err == nil {
		return ""
	}
	return name
}

// protocolLine returns OpenSSL's version, cipher suite, and the bits of the server's key and of the
// cipher.
func protocolLine(s *tls.ConnectionState) string {
	version := "TLSv1"
	if minor := s.Version - tls.VersionTLS10; minor > 0 {
		version = fmt.Sprintf("TLSv1.%d", minor)
	}
	keyBits := 0
	if len(s.PeerCertificates) > 0 {
		keyBits = publicBits(s.PeerCertificates[0])
	}
	suite := tls.CipherSuiteName(s.CipherSuite)
	return fmt.Sprintf("%s,%s,%d,%d", version, opensslName(suite), keyBits, cipherBits(suite))
}

func publicBits(cert *x509.Certificate) int {
	switch key := cert.PublicKey.(type) {
	case *rsa.PublicKey:
		return key.N.BitLen()
	case *ecdsa.PublicKey:
		return key.Params().BitSize
	}
	return 256 // OpenSSL's number for Ed25519
}

func cipherBits(suite string) int {
	switch {
	case strings.Contains(suite, "_128_"):
		return 128
	case strings.Contains(suite, "3DES"):
		return 168
	}
	return 256
}

// opensslName returns OpenSSL's name of a cipher suite: ECDHE-RSA-AES128-GCM-SHA256 for
// TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256. Cipher suites of TLS 1.3 have the same name in both.
func opensslName(suite string) string {
	exchange, cipher, ok := strings.Cut(strings.TrimPrefix(suite, "TLS_"), "_WITH_")
	if !ok {
		return suite
	}
	cipher = strings.NewReplacer("AES_128", "AES128", "AES_256", "AES256", "_CBC", "", "CHACHA20_POLY1305_SHA256",
		"CHACHA20_POLY1305", "3DES_EDE", "DES_CBC3").Replace(cipher)
	if exchange == "RSA" {
		return strings.ReplaceAll(cipher, "_", "-")
	}
	return strings.ReplaceAll(exchange+"_"+cipher, "_", "-")
}

// tempKey returns OpenSSL's name and size of the server's temporary key. It is empty without such a
// key, and with TLS 1.2, where VerifyConnection runs before the key is known.
func tempKey(curve tls.CurveID) string {
	switch curve {
	case tls.X25519:
		return "X25519 253 bits"
	case tls.CurveP256:
		return "ECDH prime256v1 256 bits"
	case tls.CurveP384:
		return "ECDH secp384r1 384 bits"
	case tls.CurveP521:
		return "ECDH secp521r1 521 bits"
	}
	return ""
}
