package front

import (
	"bytes"
	"fmt"
	"math"
	"mime"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"unicode/utf8"
)

// recodeTable converts text from one charset to another. One of its fields is set.
type recodeTable struct {
	bytes    *[256]byte
	toUTF8   *[256]string
	fromUTF8 map[rune]byte
}

// unmapped stands for characters that a table does not have.
const unmapped = '?'

// newRecodeTable returns the table of a charset_map, and the one for the other direction. ASCII
// remains as it is, and other characters need a row.
func newRecodeTable(rows map[byte]string, toUTF8 bool) (there, back recodeTable, err error) {
	if toUTF8 {
		there.toUTF8, back.fromUTF8 = new([256]string), make(map[rune]byte)
	} else {
		there.bytes, back.bytes = new([256]byte), new([256]byte)
	}
	set := func(from byte, to string) error {
		if !toUTF8 {
			if len(to) != 1 {
				return fmt.Errorf("%02X: want one byte instead of %q", from, to)
			}
			there.bytes[from], back.bytes[to[0]] = to[0], from
			return nil
		}
		r, n := utf8.DecodeRuneInString(to)
		if n != len(to) || r == utf8.RuneError {
			return fmt.Errorf("%02X: want the UTF-8 of one character instead of %q", from, to)
		}
		there.toUTF8[from], back.fromUTF8[r] = to, from
		return nil
	}
	for i := range 256 {
		to := byte(i)
		if i >= utf8.RuneSelf {
			to = unmapped
		}
		if toUTF8 {
			there.toUTF8[i] = string(rune(to))
		} else {
			there.bytes[i], back.bytes[i] = to, to
		}
	}
	for i := range 256 { // in order: of bytes with the same character the last one is used
		if to, ok := rows[byte(i)]; ok {
			if err := set(byte(i), to); err != nil {
				return there, back, err
			}
		}
	}
	return there, back, nil
}

// keepsLength reports whether each byte becomes one byte.
func (t *recodeTable) keepsLength() bool { return t.bytes != nil }

// append appends the converted text to b. It returns how much of the text it has converted: an
// incomplete character remains, unless last is set.
func (t *recodeTable) append(b, text []byte, last bool) (out []byte, n int) {
	switch {
	case t.bytes != nil:
		for _, c := range text {
			b = append(b, t.bytes[c])
		}
		return b, len(text)
	case t.toUTF8 != nil:
		for _, c := range text {
			b = append(b, t.toUTF8[c]...)
		}
		return b, len(text)
	}
	for n < len(text) {
		if c := text[n]; c < utf8.RuneSelf { // as in nginx without a look at the table
			b = append(b, c)
			n++
			continue
		}
		if !last && !utf8.FullRune(text[n:]) {
			break
		}
		r, size := utf8.DecodeRune(text[n:])
		b = t.appendRune(b, r, size)
		n += size
	}
	return b, n
}

// appendRune appends a character. As in nginx a character without a row becomes a reference of
// HTML.
func (t *recodeTable) appendRune(b []byte, r rune, size int) []byte {
	to, ok := t.fromUTF8[r]
	switch {
	case ok:
		return append(b, to)
	case r == utf8.RuneError && size == 1:
		return append(b, unmapped)
	}
	return append(strconv.AppendInt(append(b, "&#"...), int64(r), 10), ';')
}

// recoder is the stage that converts the body of a response.
type recoder struct {
	plainStage
	w     *writer
	table *recodeTable
	rest  []byte // an incomplete character
	parts *recodedParts
}

// Write implements stage.
func (c *recoder) Write(p []byte) (int, error) {
	if c.parts != nil {
		return len(p), c.parts.write(c.w, p)
	}
	text := p
	if len(c.rest) > 0 {
		text = append(c.rest, p...)
	}
	out, n := c.table.append(make([]byte, 0, len(text)), text, false)
	c.rest = append([]byte(nil), text[n:]...)
	if len(out) == 0 {
		return len(p), nil
	}
	_, err := c.w.pass(charsetStage+1, out)
	return len(p), err
}

// Close passes on what remains.
func (c *recoder) Close() (err error) {
	out := c.rest
	if c.parts != nil {
		out = c.parts.header
	} else if len(out) > 0 {
		out, _ = c.table.append(nil, out, true)
	}
	if len(out) > 0 {
		_, err = c.w.pass(charsetStage+1, out)
	}
	return err
}

// recodedParts converts the parts of a multipart/byteranges (RFC 9110, 14.6):
//
//	header   the delimiter and the fields of a part, up to an empty line
//	text     as many bytes as its Content-Range has
//
//	header -> text     a valid Content-Range
//	text   -> header   at the end of the part
//
// After a header that is too long or has no valid Content-Range everything is text, which remains
// as it is.
type recodedParts struct {
	rules     *recoding
	isEncoded bool // the text has a Content-Encoding, and remains as it is
	header    []byte
	left      int64 // bytes of the part; 0 in a header
	table     *recodeTable
}

// maxPartHeader bounds the header of a part.
const maxPartHeader = 4 << 10

// write converts a piece of the body.
func (c *recodedParts) write(w *writer, p []byte) error {
	for len(p) > 0 {
		var out []byte
		if c.left == 0 {
			if out, p = c.readHeader(w.x, p); out == nil {
				return nil
			}
		} else {
			n := min(int64(len(p)), c.left)
			out, p, c.left = p[:n], p[n:], c.left-n
			if c.table != nil {
				out, _ = c.table.append(make([]byte, 0, len(out)), out, true)
			}
		}
		if _, err := w.pass(charsetStage+1, out); err != nil {
			return err
		}
	}
	return nil
}

// readHeader reads the header of a part. Once it is complete readHeader returns the one that the
// part has now, and the rest of p.
func (c *recodedParts) readHeader(x *exchange, p []byte) (header, rest []byte) {
	const emptyLine = "\r\n\r\n"
	before := len(c.header)
	header = append(c.header, p[:min(len(p), maxPartHeader-before)]...)
	end := bytes.Index(header, []byte(emptyLine))
	switch {
	case end >= 0:
		end += len(emptyLine)
		rest, header = p[end-before:], c.begin(x, header[:end])
	case len(header) == maxPartHeader:
		rest, c.left, c.table = p[len(header)-before:], math.MaxInt64, nil
	default:
		c.header = header
		return nil, nil
	}
	c.header = nil
	return header, rest
}

// begin begins a part, and returns the header that it has now.
func (c *recodedParts) begin(x *exchange, header []byte) []byte {
	const contentType = "Content-Type"
	var out []byte
	c.table, c.left = nil, math.MaxInt64
	for line := range bytes.Lines(header) {
		name, value, _ := strings.Cut(strings.TrimRight(string(line), "\r\n"), ":")
		value = strings.TrimSpace(value)
		switch textproto.CanonicalMIMEHeaderKey(name) {
		case contentType:
			f := c.rules.find(x, value)
			if f.err == nil && f.to != "" && (f.table == nil || f.table.keepsLength() && !c.isEncoded) {
				c.table = f.table
				line = []byte(contentType + ": " + f.contentType() + "\r\n")
			}
		case "Content-Range":
			c.left = rangeLength(value)
		}
		out = append(out, line...)
	}
	if c.left == math.MaxInt64 {
		c.table = nil
		return header
	}
	return out
}

// rangeLength returns the length that a Content-Range has, or the largest one if it is invalid.
func rangeLength(value string) int64 {
	bounds, _, _ := strings.Cut(strings.TrimPrefix(value, "bytes "), "/")
	from, to, _ := strings.Cut(bounds, "-")
	first, firstErr := strconv.ParseInt(from, 10, 64)
	last, lastErr := strconv.ParseInt(to, 10, 64)
	if firstErr != nil || lastErr != nil || first < 0 || last < first || last == math.MaxInt64 {
		return math.MaxInt64
	}
	return last - first + 1
}

// isMultipart reports whether a response consists of several ranges.
func isMultipart(status int, contentType string) bool {
	if status != http.StatusPartialContent {
		return false
	}
	media, _, err := mime.ParseMediaType(contentType)
	return err == nil && media == "multipart/byteranges"
}
