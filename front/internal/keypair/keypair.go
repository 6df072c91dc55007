// Package keypair parses certificates whose private keys may be encrypted.
package keypair

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"strings"
)

// Parse parses a certificate and its private key, both in PEM. Passwords has one password a line.
// They are tried in their order if the key is encrypted, by PKCS#8 (RFC 5958) or by RFC 1423.
func Parse(cert, key []byte, passwords string) (tls.Certificate, error) {
	plain, err := decrypt(key, passwords)
	if err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(cert, plain)
	if err == nil {
		err = CheckPEM(cert)
	}
	if err != nil {
		return tls.Certificate{}, err
	}
	return pair, nil
}

// CheckPEM returns an error if a block in a PEM text is malformed or cut off. Package pem skips
// such blocks: while a file is being written, a chain would be served without its end.
func CheckPEM(text []byte) error {
	const begin = "-----BEGIN"
	missing := bytes.Count(text, []byte("\n"+begin))
	if bytes.HasPrefix(text, []byte(begin)) {
		missing++
	}
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		missing--
	}
	if missing > 0 {
		return errors.New("a PEM block is malformed or cut off")
	}
	return nil
}

// Passwords returns the passwords in a file, one a line, for Parse. As in nginx the end of a line
// is LF or CRLF, and empty lines are skipped.
func Passwords(file []byte) string {
	var all []string
	for line := range strings.SplitSeq(string(file), "\n") {
		if line = strings.TrimSuffix(line, "\r"); line != "" {
			all = append(all, line)
		}
	}
	return strings.Join(all, "\n")
}

var (
	errNoPassword    = errors.New("the key is encrypted, and no password is configured")
	errWrongPassword = errors.New("the key is encrypted, and none of the passwords fits")
)

// decrypt returns the first private key in a PEM text without encryption. A text without an
// encrypted key is returned as it is.
func decrypt(text []byte, passwords string) ([]byte, error) {
	block, rest := pem.Decode(text)
	for block != nil && !strings.HasSuffix(block.Type, "PRIVATE KEY") {
		block, rest = pem.Decode(rest)
	}
	if block == nil {
		return text, nil
	}
	//nolint:staticcheck // RFC 1423 is weak, and keys that openssl 1 has encrypted are common
	isOld := x509.IsEncryptedPEMBlock(block)
	if !isOld && block.Type != "ENCRYPTED PRIVATE KEY" {
		return text, nil
	}
	if passwords == "" {
		return nil, errNoPassword
	}
	for password := range strings.SplitSeq(passwords, "\n") {
		plain := &pem.Block{Type: block.Type}
		var err error
		if isOld {
			plain.Bytes, err = x509.DecryptPEMBlock(block, []byte(password)) //nolint:staticcheck // likewise
		} else {
			plain.Type = "PRIVATE KEY"
			plain.Bytes, err = decryptPKCS8(block.Bytes, password)
		}
		if errors.Is(err, errUnsupported) {
			return nil, err
		}
		if err == nil && isKey(plain.Bytes) {
			return pem.EncodeToMemory(plain), nil
		}
	}
	return nil, errWrongPassword
}

// isKey reports whether DER is a private key. One of 256 wrong passwords seems to fit otherwise.
func isKey(der []byte) bool {
	_, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		_, err = x509.ParsePKCS1PrivateKey(der)
	}
	if err != nil {
		_, err = x509.ParseECPrivateKey(der)
	}
	return err == nil
}
