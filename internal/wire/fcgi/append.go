package fcgi

import "encoding/binary"

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
