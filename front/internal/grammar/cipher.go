package grammar

import (
	"crypto/tls"
	"strings"
)

// CipherName returns OpenSSL's name of a cipher suite. Those of TLS 1.3 have the same names
// everywhere.
func CipherName(id uint16) string {
	name := tls.CipherSuiteName(id)
	exchange, cipher, ok := strings.Cut(strings.TrimPrefix(name, "TLS_"), "_WITH_")
	if !ok {
		return name
	}
	prefix := ""
	if exchange != "RSA" {
		prefix = strings.ReplaceAll(exchange, "_", "-") + "-"
	}
	switch algorithm, rest, _ := strings.Cut(cipher, "_"); algorithm {
	case "AES": // 128_CBC_SHA or 256_GCM_SHA384
		return prefix + "AES" + strings.ReplaceAll(strings.Replace(rest, "_CBC", "", 1), "_", "-")
	case "CHACHA20":
		return prefix + "CHACHA20-POLY1305"
	case "3DES":
		return prefix + "DES-CBC3-SHA"
	}
	return prefix + "RC4-SHA"
}
