package http1

import "strconv"

// AppendStatusLine appends "HTTP/1.minor code reason CRLF". reason must contain no control byte. If
// it is empty, its space remains, which section 4 requires.
func AppendStatusLine(dst []byte, minor, code int, reason string) []byte {
	dst = append(dst, "HTTP/1."...)
	dst = append(dst, '0'+byte(minor), ' ')
	dst = strconv.AppendInt(dst, int64(code), 10)
	dst = append(dst, ' ')
	dst = append(dst, reason...)
	return append(dst, "\r\n"...)
}

// AppendRequestLine appends "method target HTTP/1.minor CRLF". It checks nothing: see ValidToken
// and ValidTarget.
func AppendRequestLine(dst []byte, minor int, method, target string) []byte {
	dst = append(dst, method...)
	dst = append(dst, ' ')
	dst = append(dst, target...)
	dst = append(dst, " HTTP/1."...)
	return append(dst, '0'+byte(minor), '\r', '\n')
}

// AppendField appends a field line. It removes spaces and line ends around the value, and replaces
// control bytes in it by spaces. No value can therefore end its line early. name must be a token.
func AppendField(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	for value != "" && isBlank(value[0]) {
		value = value[1:]
	}
	for value != "" && isBlank(value[len(value)-1]) {
		value = value[:len(value)-1]
	}
	start := len(dst)
	dst = append(dst, value...)
	for i := start; i < len(dst); i++ {
		if classes[dst[i]]&valueByte == 0 {
			dst[i] = ' '
		}
	}
	return append(dst, "\r\n"...)
}

// AppendRawField appends a field line as it is. name must be a token, and value a field value
// without space around it, such as those of a parsed Field.
func AppendRawField(dst, name, value []byte) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = append(dst, value...)
	return append(dst, "\r\n"...)
}

// AppendLength appends a Content-Length field line.
func AppendLength(dst []byte, n int64) []byte {
	dst = append(dst, "Content-Length: "...)
	dst = strconv.AppendInt(dst, n, 10)
	return append(dst, "\r\n"...)
}

// AppendDate appends a Date field line. It checks nothing.
func AppendDate(dst []byte, date string) []byte {
	dst = append(dst, "Date: "...)
	dst = append(dst, date...)
	return append(dst, "\r\n"...)
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// AppendChunkSize appends the line that starts a chunk of n bytes, n > 0. The data and
// AppendChunkEnd follow.
func AppendChunkSize(dst []byte, n int) []byte {
	dst = strconv.AppendInt(dst, int64(n), 16)
	return append(dst, "\r\n"...)
}

// AppendChunkEnd appends the line end after a chunk's data.
func AppendChunkEnd(dst []byte) []byte { return append(dst, "\r\n"...) }

// AppendLastChunk appends the line of the last chunk, of size zero. Trailer fields and
// AppendHeadEnd follow.
func AppendLastChunk(dst []byte) []byte { return append(dst, "0\r\n"...) }

// AppendHeadEnd appends the empty line that ends a head or a trailer section.
func AppendHeadEnd(dst []byte) []byte { return append(dst, "\r\n"...) }

// ValidToken reports whether s can be a method or a field name.
func ValidToken[T string | []byte](s T) bool { return len(s) > 0 && all(s, tokenByte) }

// ValidLowerToken reports whether s can be a field name of HTTP/2 (RFC 9113, 8.2.1).
func ValidLowerToken(s []byte) bool { return len(s) > 0 && all(s, lowerTokenByte) }

// ValidTarget reports whether s can be a request target.
func ValidTarget[T string | []byte](s T) bool { return len(s) > 0 && all(s, targetByte) }

// ValidValue reports whether AppendField would write s unchanged except for the space around it.
func ValidValue[T string | []byte](s T) bool { return all(s, valueByte) }

func all[T string | []byte](s T, c class) bool {
	for i := range len(s) {
		if classes[s[i]]&c == 0 {
			return false
		}
	}
	return true
}
