// Package http1 is the grammar of HTTP/1.1: bytes in, offsets and values out.
//
// Nothing here reads, writes, waits, logs or remembers a connection. A caller
// hands over the bytes it holds and is told where the parts of a message lie in
// them, or that more bytes are needed, or that the bytes are wrong and where.
//
// # Terms
//
// A head is a start line and field lines up to the empty line (RFC 9112, 2.1).
// A field is one "name: value" line of a head or of a trailer section. Framing is
// how long a body is and how its end is found (RFC 9112, 6.3). Offsets count from
// the first byte handed over for the message.
//
// # Strictness
//
// RFC 9112 lets a recipient be lenient in places where leniency has let requests
// be smuggled past a proxy that reads the same bytes differently. This package
// takes the strict side of each: lines end in CRLF, never in a bare LF; a CR is
// nowhere else; no folded lines; no space before a colon; names are tokens; one
// Content-Length of digits only; Transfer-Encoding is "chunked" once, alone, and
// on HTTP/1.1; one Host. One empty line before a request is skipped, as section
// 2.2 asks.
//
// # Any split
//
// Bytes arrive in pieces. A message parsed whole, byte by byte, or cut anywhere
// gives the same result and, if it is malformed, the same error at the same
// offset. Every check therefore looks at a complete line or at a byte's position,
// never at what happened to have arrived.
package http1
