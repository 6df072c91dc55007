// Package http2 is the grammar of HTTP/2 (RFC 9113) and of its header compression, HPACK (RFC
// 7541): bytes in, offsets and values out.
//
// Nothing here reads, writes, waits, logs or keeps a connection. ParseFrameHeader and
// FrameHeader.Check determine where a frame ends and whether it may exist. One function for each
// type of frame interprets its payload. A Decoder decodes the field block of a request, once all
// fragments of the block have arrived. The functions whose names begin with Append produce frames
// and field blocks.
//
// # Field blocks
//
// A Decoder changes with each block. All blocks of a connection must therefore pass through it, in
// order, also those of rejected requests. A block that exceeds its limits is decoded to its
// end, without keeping what exceeds them.
//
// AppendHeaders, AppendStatus and AppendField use the static table only. Their output does not
// depend on other blocks: streams can encode their heads at the same time and send them in any
// order.
//
// # Glossary
//
//   - field block: the encoded fields of a HEADERS frame and of the CONTINUATION frames after it.
//   - list size: the size of a decoded block: its names and values, and 32 bytes for each field
//     (RFC 9113, 10.5.1).
//   - fault: why a request is malformed (RFC 9113, 8.1.1), as text without bytes of the client.
package http2
