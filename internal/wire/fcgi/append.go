package fcgi

import (
	"encoding/binary"

	"github.com/tarehq/tare/internal/wire/http1"
)

// AppendHeader appends a record's header.
func AppendHeader(b []byte, h Header) []byte {
	return append(b, version, byte(h.Type), byte(h.ID>>8), byte(h.ID), byte(h.Length>>8), byte(h.Length), h.Padding, 0)
}

// PutHeader overwrites the first HeaderSize bytes of b with a record's header.
func PutHeader(b []byte, h Header) { AppendHeader(b[:0:HeaderSize], h) }

// AppendStream appends content to a stream, in as many records as necessary. It appends nothing if
// content is empty.
func AppendStream(b []byte, t Type, id uint16, content []byte) []byte {
	for len(content) > 0 {
		n := min(len(content), MaxContent)
		b = AppendHeader(b, Header{Type: t, ID: id, Length: uint16(n)})
		b = append(b, content[:n]...)
		content = content[n:]
	}
	return b
}

// AppendStreamEnd appends the empty record that ends a stream.
func AppendStreamEnd(b []byte, t Type, id uint16) []byte {
	return AppendHeader(b, Header{Type: t, ID: id})
}

// AppendBegin appends a BEGIN_REQUEST record.
func AppendBegin(b []byte, id uint16, begin Begin) []byte {
	flags := byte(0)
	if begin.Keep {
		flags = keepConn
	}
	b = AppendHeader(b, Header{Type: BeginRequest, ID: id, Length: 8})
	return append(b, byte(begin.Role>>8), byte(begin.Role), flags, 0, 0, 0, 0, 0)
}

// AppendAbort appends an ABORT_REQUEST record.
func AppendAbort(b []byte, id uint16) []byte {
	return AppendHeader(b, Header{Type: AbortRequest, ID: id})
}

// AppendEnd appends an END_REQUEST record.
func AppendEnd(b []byte, id uint16, end End) []byte {
	b = AppendHeader(b, Header{Type: EndRequest, ID: id, Length: 8})
	b = binary.BigEndian.AppendUint32(b, end.App)
	return append(b, byte(end.Status), 0, 0, 0)
}

// AppendUnknownType appends the response to a record of an unknown type.
func AppendUnknownType(b []byte, t Type) []byte {
	b = AppendHeader(b, Header{Type: UnknownType, Length: 8})
	return append(b, byte(t), 0, 0, 0, 0, 0, 0, 0)
}

// AppendPair appends a name and its value, without a header.
func AppendPair[T string | []byte](b []byte, name, value T) []byte {
	b = appendLength(appendLength(b, len(name)), len(value))
	return append(append(b, name...), value...)
}

func appendLength(b []byte, n int) []byte {
	if n < 0x80 {
		return append(b, byte(n))
	}
	return binary.BigEndian.AppendUint32(b, uint32(n)|1<<31)
}

// AppendValuesResult appends the response to a GET_VALUES record (section 4.1) of an application
// whose connections carry one request at a time. It omits all other names.
func AppendValuesResult(b, query []byte) []byte {
	header := len(b)
	b = AppendHeader(b, Header{Type: GetValuesResult})
	for at := 0; at < len(query); {
		p, next, err := NextPair(query, at)
		if err != nil {
			break
		}
		at = next
		if name := string(p.Name.In(query)); name == "FCGI_MPXS_CONNS" {
			b = AppendPair(b, name, "0")
		}
	}
	PutHeader(b[header:], Header{Type: GetValuesResult, Length: uint16(len(b) - header - HeaderSize)})
	return b
}

// Pair holds the offsets of a name and of its value.
type Pair struct{ Name, Value http1.Span }

// NextPair parses the name and the value at an offset of b, and returns the offset of the next pair
// (section 3.4). b contains the whole list.
func NextPair(b []byte, at int) (p Pair, next int, err error) {
	name, n := parseLength(b, at)
	if n == 0 {
		return Pair{}, at, fault(at, "truncated name length")
	}
	value, m := parseLength(b, at+n)
	if m == 0 {
		return Pair{}, at, fault(at, "truncated value length")
	}
	start := at + n + m
	if name > len(b)-start || value > len(b)-start-name {
		return Pair{}, at, fault(at, "parameter exceeds its list")
	}
	mid, end := start+name, start+name+value
	return Pair{http1.SpanOf(start, mid), http1.SpanOf(mid, end)}, end, nil
}

// parseLength parses a length of one byte, or of four if the first bit is set. n is the number of
// its bytes, 0 if it is truncated.
func parseLength(b []byte, at int) (v, n int) {
	switch {
	case at >= len(b):
		return 0, 0
	case b[at] < 0x80:
		return int(b[at]), 1
	case len(b)-at < 4:
		return 0, 0
	}
	return int(binary.BigEndian.Uint32(b[at:]) &^ (1 << 31)), 4
}
