package clientcert

import (
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
	switch kind := a.Type.String(); kind {
	case "2.5.4.3":
		return "CN"
	case "2.5.4.4":
		return "SN"
	case "2.5.4.5":
		return "serialNumber"
	case "2.5.4.6":
		return "C"
	case "2.5.4.7":
		return "L"
	case "2.5.4.8":
		return "ST"
	case "2.5.4.9":
		return "street"
	case "2.5.4.10":
		return "O"
	case "2.5.4.11":
		return "OU"
	case "2.5.4.12":
		return "title"
	case "2.5.4.42":
		return "GN"
	case "1.2.840.113549.1.9.1":
		return "emailAddress"
	case "0.9.2342.19200300.100.1.25":
		return "DC"
	case "0.9.2342.19200300.100.1.1":
		return "UID"
	default:
		return kind
	}
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
