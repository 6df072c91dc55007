package accesslog

import (
	"fmt"
	"strconv"
	"time"
)

const (
	// clfTime is the time of the Common Log Format.
	clfTime = "02/Jan/2006:15:04:05 -0700"

	hexDigits = "0123456789ABCDEF"
)

// Lost returns a line about lost lines, which programs that read the combined format can parse.
func Lost(lines int, why error) []byte {
	b := time.Now().AppendFormat([]byte("- - - ["), clfTime)
	b = AppendEscaped(append(b, `] "`...), fmt.Sprintf("%d lines lost: %v", lines, why))
	return append(b, "\" 0 - \"-\" \"-\"\n"...)
}

// LostJSON is Lost for lines that are JSON.
func LostJSON(lines int, why error) []byte {
	b := time.Now().AppendFormat([]byte(`{"time":"`), time.RFC3339)
	b = strconv.AppendInt(append(b, `","lost":`...), int64(lines), 10)
	return append(AppendJSON(append(b, `,"why":"`...), why.Error()), "\"}\n"...)
}

// AppendEscaped appends text of a client, such that it cannot end the field or the line. As in
// nginx, quotes, backslashes and everything but printable ASCII become \xHH.
func AppendEscaped(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			b = append(b, '\\', 'x', hexDigits[c>>4], hexDigits[c&15])
		} else {
			b = append(b, c)
		}
	}
	return b
}

// AppendJSON appends the content of a JSON string, byte by byte as nginx does: invalid UTF-8 stays.
func AppendJSON(b []byte, s string) []byte {
	const short = "btn?fr" // from \b on
	for i := range len(s) {
		switch ch := s[i]; {
		case ch == '"' || ch == '\\':
			b = append(b, '\\', ch)
		case ch >= ' ':
			b = append(b, ch)
		case ch >= '\b' && ch <= '\r' && ch != '\v':
			b = append(b, '\\', short[ch-'\b'])
		default:
			b = append(b, '\\', 'u', '0', '0', hexDigits[ch>>4], hexDigits[ch&15])
		}
	}
	return b
}
