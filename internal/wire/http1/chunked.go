package http1

import "math"

// maxChunkOverhead bounds what a chunked body may carry besides its data: size
// lines and extensions. It applies to the whole body, not to each chunk. Each
// chunk earns some overhead of its own (see earn), so that honest bodies in many
// small chunks never meet it.
const maxChunkOverhead = 16 << 10

// chunkGrant is how much overhead a chunk earns for being one.
const chunkGrant = 16

// maxSizeDigits is enough for every size; a longer one has zeros in front.
const maxSizeDigits = 16

// chunkState is a position in the grammar of a chunked body (RFC 9112, 7.1).
type chunkState uint8

const (
	chunkSize      chunkState = iota // in the hexadecimal size, or before it
	chunkExtSpace                    // after a semicolon, before the name
	chunkExtName                     // in an extension's name
	chunkExtAfter                    // in space after a name
	chunkExtEquals                   // after an equals sign, before the value
	chunkExtToken                    // in a value that is a token
	chunkExtQuoted                   // in a quoted value
	chunkExtEscape                   // after a backslash in a quoted value
	chunkExtEnd                      // after a value
	chunkLineLF                      // after the CR of a size line
	chunkData                        // in the data
	chunkDataCR                      // after the data
	chunkDataLF                      // after the CR that follows the data
	chunkDone                        // after the last chunk's line
)

// Chunked decodes the chunks of a body. The zero value stands before the first
// one. Bytes are handed over as they come, each exactly once.
type Chunked struct {
	state    chunkState
	digits   uint8
	size     int64 // of the chunk whose line is being read; left of it in chunkData
	overhead int64
	offset   int64 // bytes consumed
}

// Done reports whether the last chunk has been read. The trailer section follows,
// for Trailer.Parse: at least its empty line.
func (c *Chunked) Done() bool { return c.state == chunkDone }

// Next consumes the first n bytes of src: up to and with the next piece of data,
// which it returns and which aliases src, or up to the end of src or of the last
// chunk's line.
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
			return nil, n, &Error{Kind: TooLarge, What: "chunked body is mostly overhead", Offset: c.offset}
		}
	}
	return nil, n, nil
}

// step consumes one byte that is not data. It returns what is wrong with it.
func (c *Chunked) step(b byte) string {
	switch c.state {
	case chunkSize:
		return c.stepSize(b)
	case chunkLineLF:
		if b != '\n' {
			return "CR without LF in chunk line"
		}
		c.earn()
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

// stepExtension checks chunk-ext = *( BWS ";" BWS name [ BWS "=" BWS value ] )
// byte by byte. The extension itself is ignored, as section 7.1.1 asks. The one
// thing refused that the grammar allows is space between the size and the first
// semicolon, where readers differ on what the size is.
func (c *Chunked) stepExtension(b byte) string {
	space := b == ' ' || b == '\t'
	token := classes[b]&tokenByte != 0
	const bad = "malformed chunk extension"
	switch c.state {
	case chunkExtSpace:
		if token {
			c.state = chunkExtName
		} else if !space {
			return bad
		}
	case chunkExtName, chunkExtAfter:
		switch {
		case token && c.state == chunkExtName:
		case space:
			c.state = chunkExtAfter
		case b == '=':
			c.state = chunkExtEquals
		default:
			return c.endExtension(b)
		}
	case chunkExtEquals:
		switch {
		case b == '"':
			c.state = chunkExtQuoted
		case token:
			c.state = chunkExtToken
		case !space:
			return bad
		}
	case chunkExtToken, chunkExtEnd:
		switch {
		case token && c.state == chunkExtToken:
		case space:
			c.state = chunkExtEnd
		default:
			return c.endExtension(b)
		}
	case chunkExtQuoted, chunkExtEscape:
		switch {
		case classes[b]&valueByte == 0:
			return bad
		case c.state == chunkExtEscape:
			c.state = chunkExtQuoted
		case b == '\\':
			c.state = chunkExtEscape
		case b == '"':
			c.state = chunkExtEnd
		}
	}
	return ""
}

func (c *Chunked) endExtension(b byte) string {
	switch b {
	case ';':
		c.state = chunkExtSpace
	case '\r':
		c.state = chunkLineLF
	default:
		return "malformed chunk extension"
	}
	return ""
}

// earn takes off the overhead that a chunk of n bytes may bring: chunkGrant + 2n. A
// sender of one-byte chunks without extensions is therefore never refused.
func (c *Chunked) earn() {
	n := min(c.size, maxChunkOverhead) // more would earn no more, and could overflow
	c.overhead = max(0, c.overhead-chunkGrant-2*n)
}

func hexValue(b byte) byte {
	if b <= '9' {
		return b - '0'
	}
	return b&0x0f + 9
}
