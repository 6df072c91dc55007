package http1

import "math"

// maxChunkOverhead limits the bytes of a chunked body besides its data: size lines and extensions.
// It applies to the whole body, not to each chunk. Each chunk allows some overhead of its own (see
// allowOverhead), so that valid bodies in many small chunks never exceed it.
const maxChunkOverhead = 16 << 10

const chunkAllowance = 16 // overhead that each chunk allows, whatever its size

const maxSizeDigits = 16 // enough for every size; a longer number has leading zeros

// chunkState is a position in the grammar of a chunked body (RFC 9112, 7.1):
//
//	size ──[extensions]──CR──▶ lineLF ──LF──▶ data ──▶ dataCR ──▶ dataLF ──▶ size
//	                              └──LF, size is 0──▶ done
type chunkState uint8

const (
	chunkSize      chunkState = iota // in the hexadecimal size, or before it
	chunkExtSpace                    // after a semicolon, and in space after it
	chunkExt                         // in an extension
	chunkExtQuoted                   // in a quoted value
	chunkExtEscape                   // after a backslash in a quoted value
	chunkLineLF                      // after the CR of a size line
	chunkData                        // in the data
	chunkDataCR                      // after the data
	chunkDataLF                      // after the CR that follows the data
	chunkDone                        // after the last chunk's line
)

// Chunked decodes the chunks of a body. The zero value is ready for the first one. It returns data
// as it arrives, each byte exactly once.
type Chunked struct {
	state    chunkState
	digits   uint8
	size     int64 // of the chunk whose line is parsed; in chunkData, bytes that remain
	overhead int64
	offset   int64 // bytes consumed
}

// Done reports whether the last chunk has been read. The trailer section follows, at least its
// empty line; see Trailer.Parse.
func (c *Chunked) Done() bool { return c.state == chunkDone }

// Left returns how many bytes of data Next expects, without anything between them.
func (c *Chunked) Left() int64 {
	if c.state != chunkData {
		return 0
	}
	return c.size
}

// Next consumes the first n bytes of src. It stops after the next piece of data, which it returns,
// after the last chunk's line, or at the end of src. data aliases src.
func (c *Chunked) Next(src []byte) (data []byte, n int, err error) {
	for n < len(src) && c.state != chunkDone {
		if c.state == chunkData {
			k := int(min(c.size, int64(len(src)-n)))
			data = src[n : n+k]
			c.size -= int64(k)
			c.offset += int64(k)
			if c.size == 0 {
				c.state = chunkDataCR
			}
			return data, n + k, nil
		}
		if what := c.step(src[n]); what != "" {
			return nil, n, &Error{Kind: Malformed, What: what, Offset: c.offset}
		}
		n++
		c.offset++
		if c.overhead++; c.overhead > maxChunkOverhead {
			return nil, n, &Error{Kind: TooLarge, What: "chunked body has too much overhead", Offset: c.offset}
		}
	}
	return nil, n, nil
}

// HasData reports whether src contains data, or a fault before any.
func (c *Chunked) HasData(src []byte) bool {
	ahead := *c
	data, _, err := ahead.Next(src)
	return len(data) > 0 || err != nil
}

// step consumes one byte that is not data. It returns the fault, or "".
func (c *Chunked) step(b byte) string {
	switch c.state {
	case chunkSize:
		return c.stepSize(b)
	case chunkLineLF:
		if b != '\n' {
			return "CR without LF in chunk line"
		}
		c.allowOverhead()
		c.digits = 0
		if c.state = chunkData; c.size == 0 {
			c.state = chunkDone
		}
	case chunkDataCR:
		if b != '\r' {
			return "chunk data not followed by CRLF"
		}
		c.state = chunkDataLF
	case chunkDataLF:
		if b != '\n' {
			return "chunk data not followed by CRLF"
		}
		c.state = chunkSize
	default:
		return c.stepExtension(b)
	}
	return ""
}

func (c *Chunked) stepSize(b byte) string {
	if classes[b]&hexByte != 0 {
		if c.digits++; c.digits > maxSizeDigits {
			return "chunk size out of range"
		}
		if c.size > math.MaxInt64>>4 {
			return "chunk size out of range"
		}
		c.size = c.size<<4 | int64(hexValue(b))
		return ""
	}
	if c.digits == 0 {
		return "malformed chunk size"
	}
	switch b {
	case '\r':
		c.state = chunkLineLF
	case ';':
		c.state = chunkExtSpace
	default:
		return "malformed chunk size"
	}
	return ""
}

// stepExtension ignores the extensions of a chunk, as section 7.1.1 requires. It checks only what
// readers could frame differently: a semicolon without an extension, control bytes, and a line that
// ends in a quoted value. Space between the size and the first semicolon is malformed, although the
// grammar allows it, because readers differ on the size then.
func (c *Chunked) stepExtension(b byte) string {
	switch {
	case b == '\r' && c.state == chunkExt:
		c.state = chunkLineLF
	case classes[b]&valueByte == 0:
		return "malformed chunk extension"
	case c.state == chunkExtEscape:
		c.state = chunkExtQuoted
	case c.state == chunkExtQuoted && b == '\\':
		c.state = chunkExtEscape
	case c.state == chunkExtQuoted && b == '"':
		c.state = chunkExt
	case c.state == chunkExtQuoted:
	case b == '"':
		c.state = chunkExtQuoted
	case b == ';':
		c.state = chunkExtSpace
	case b != ' ' && b != '\t':
		c.state = chunkExt
	}
	return ""
}

// allowOverhead subtracts the overhead that a chunk of n bytes allows: chunkAllowance + 2n.
// One-byte chunks without extensions are therefore never rejected.
func (c *Chunked) allowOverhead() {
	n := min(c.size, maxChunkOverhead) // a larger n changes nothing, and could overflow
	c.overhead = max(0, c.overhead-chunkAllowance-2*n)
}

func hexValue(b byte) byte {
	if b <= '9' {
		return b - '0'
	}
	return b&0x0f + 9
}
