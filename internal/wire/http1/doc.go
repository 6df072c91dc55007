// Package http1 is the grammar of HTTP/1.1: bytes in, offsets and values out.
//
// Nothing here reads, writes, waits, logs or keeps a connection. A caller passes the bytes that it
// has received. The parser returns the offsets of the parts of a message, or reports that it needs
// more bytes. For a malformed message it returns an error with the offset of the fault.
//
// # Glossary
//
//   - head: a start line and field lines up to the empty line (RFC 9112, 2.1).
//   - field: one "name: value" line of a head or of a trailer section.
//   - framing: the length of a body and how its end is marked (RFC 9112, 6.3).
//   - offset: counts from the first byte passed for the message.
//
// # Strictness
//
// RFC 9112 allows a recipient to be lenient in several places. Leniency there has let requests be
// smuggled past a proxy that reads the same bytes differently. This package is strict in each of
// them. Lines end in CRLF, never in a bare LF, and a CR appears nowhere else. There are no folded
// lines and no space before a colon. Names are tokens. There is at most one Content-Length, of
// digits only. Transfer-Encoding is "chunked" once, alone, and on HTTP/1.1. There is one Host. One
// empty line before a request is skipped, as section 2.2 recommends.
//
// # Any split
//
// Bytes arrive in pieces. The result for a message is the same whether it is parsed whole, byte by
// byte, or cut anywhere. If it is malformed, the error and its offset are the same, too. Every
// check therefore concerns a complete line or the position of a byte, never what happens to have
// arrived.
package http1
