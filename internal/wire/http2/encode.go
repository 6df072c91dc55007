package http2

import (
	"strconv"

	"github.com/tarehq/tare/internal/wire/http1"
)

// AppendStatus appends the :status pseudo-header field of a response. status has three digits.
func AppendStatus(out []byte, status int) []byte {
	const first = 8 // index of the first of these in the static table
	for i, s := range [...]int{200, 204, 206, 304, 400, 404, 500} {
		if s == status {
			return append(out, indexedBit|byte(first+i))
		}
	}
	out = append(out, first, 3) // a literal with the name of that entry
	return strconv.AppendInt(out, int64(status), 10)
}

// RequestFields are the pseudo-header fields of a request (RFC 9113, 8.3.1; RFC 8441, 4). If one is
// empty, it is absent.
type RequestFields struct{ Method, Scheme, Authority, Path, Protocol string }

// AppendRequest appends the pseudo-header fields of a request.
func AppendRequest(out []byte, f *RequestFields) []byte {
	const authority, get, post, path, http, https = 1, 2, 3, 4, 6, 7 // indexes of the static table
	switch f.Method {
	case "GET":
		out = append(out, indexedBit|get)
	case "POST":
		out = append(out, indexedBit|post)
	default:
		out = appendIndexed(out, get, f.Method)
	}
	switch f.Scheme {
	case "":
	case "https":
		out = append(out, indexedBit|https)
	case "http":
		out = append(out, indexedBit|http)
	default:
		out = appendIndexed(out, http, f.Scheme)
	}
	if f.Authority != "" {
		out = appendIndexed(out, authority, f.Authority)
	}
	switch f.Path {
	case "":
	case "/":
		out = append(out, indexedBit|path)
	default:
		out = appendIndexed(out, path, f.Path)
	}
	if f.Protocol != "" {
		out = AppendField(out, ":protocol", f.Protocol)
	}
	return out
}

// appendIndexed appends a literal field with the name of an entry of the static table.
func appendIndexed(out []byte, index int, value string) []byte {
	out = appendInteger(out, literalPrefix, index)
	out = appendInteger(out, stringPrefix, len(value))
	return append(out, value...)
}

// AppendField appends a field. name is a token in any case; value is sent as it is. Values are not
// Huffman-encoded: that makes a head a quarter smaller, but takes longer than all else.
func AppendField[T string | []byte](out []byte, name, value T) []byte {
	out = appendName(out, name)
	out = appendInteger(out, stringPrefix, len(value))
	return append(out, value...)
}

// AppendLength appends the Content-Length field.
func AppendLength(out []byte, n int64) []byte {
	const indexLength, mostDigits = 28, 20
	var digits [mostDigits]byte
	text := strconv.AppendInt(digits[:0], n, 10)
	out = appendInteger(out, literalPrefix, indexLength)
	out = appendInteger(out, stringPrefix, len(text))
	return append(out, text...)
}

// appendName appends the start of a literal field without indexing, and its name.
func appendName[T string | []byte](out []byte, name T) []byte {
	var lookup [maxKnownName]byte
	if len(name) <= len(lookup) {
		copy(lookup[:], name)
		if index := staticIndexes[http1.LookupName(lookup[:len(name)])]; index > 0 {
			return appendInteger(out, literalPrefix, int(index))
		}
	}
	out = append(out, 0)
	out = appendInteger(out, stringPrefix, len(name))
	for i := range len(name) {
		c := name[i]
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		out = append(out, c)
	}
	return out
}

const maxKnownName = 32 // no less than the length of the longest name of the static table

// appendInteger appends an integer whose first octet has prefix bits; those before are 0.
func appendInteger(out []byte, prefix, n int) []byte {
	largest := 1<<prefix - 1
	if n < largest {
		return append(out, byte(n))
	}
	out = append(out, byte(largest))
	for n -= largest; n >= 0x80; n >>= 7 {
		out = append(out, byte(n)|0x80)
	}
	return append(out, byte(n))
}
