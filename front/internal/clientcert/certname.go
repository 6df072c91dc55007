package clientcert

import (
	"cmp"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Rfc2253Name formats a distinguished name as RFC 2253 and OpenSSL do: the last part first, with
// bytes beyond ASCII escaped.
func Rfc2253Name(der []byte) string {
	names := partsOf(der)
	slices.Reverse(names)
	var parts []string
	for _, set := range names {
		var values []string
		for _, a := range set {
			values = append(values, attributeName(a)+"="+attributeValue(a))
		}
		parts = append(parts, strings.Join(values, "+"))
	}
	return strings.Join(parts, ",")
}

// OnelineName formats a distinguished name in OpenSSL's oneline form: /C=DE/CN=x.
func OnelineName(der []byte) string {
	var b strings.Builder
	for _, set := range partsOf(der) {
		for _, a := range set {
			fmt.Fprintf(&b, "/%s=", attributeName(a))
			for _, c := range []byte(fmt.Sprint(a.Value)) {
				switch {
				case c < ' ' || c > '~':
					fmt.Fprintf(&b, `\x%02X`, c)
				case c == '/' || c == '+':
					b.WriteByte('\\')
					fallthrough
				default:
					b.WriteByte(c)
				}
			}
		}
	}
	return b.String()
}

func partsOf(der []byte) pkix.RDNSequence {
	var parts pkix.RDNSequence
	_, _ = asn1.Unmarshal(der, &parts) // package x509 has parsed it before
	return parts
}

// attributeName returns the short name of an attribute's type, or its object identifier.
func attributeName(a pkix.AttributeTypeAndValue) string {
	kind := a.Type.String()
	return cmp.Or(map[string]string{
		"2.5.4.3": "CN", "2.5.4.4": "SN", "2.5.4.5": "serialNumber", "2.5.4.6": "C", "2.5.4.7": "L", "2.5.4.8": "ST",
		"2.5.4.9": "street", "2.5.4.10": "O", "2.5.4.11": "OU", "2.5.4.12": "title", "2.5.4.42": "GN",
		"1.2.840.113549.1.9.1": "emailAddress", "0.9.2342.19200300.100.1.25": "DC", "0.9.2342.19200300.100.1.1": "UID",
	}[kind], kind)
}

// attributeValue returns a value, escaped as in RFC 2253, 2.4. A value that is not text is
// hexadecimal DER.
func attributeValue(a pkix.AttributeTypeAndValue) string {
	text, ok := a.Value.(string)
	if !ok || attributeName(a) == a.Type.String() {
		der, _ := asn1.Marshal(a.Value)
		return "#" + strings.ToUpper(hex.EncodeToString(der))
	}
	var b strings.Builder
	for i, c := range []byte(text) {
		switch {
		case c < ' ' || c > '~':
			fmt.Fprintf(&b, `\%02X`, c)
		case strings.IndexByte(`,+"\<>;`, c) >= 0, i == 0 && (c == '#' || c == ' '), i == len(text)-1 && c == ' ':
			b.WriteByte('\\')
			b.WriteByte(c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}
