package accesslog

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
	"unicode/utf8"
)

const (
	// maxField is the maximum number of bytes of a request's field in a line.
	maxField = 4 << 10
	// clfTime is the time of the Common Log Format.
	clfTime = "02/Jan/2006:15:04:05 -0700"
	// jsonTime is RFC 3339 with milliseconds.
	jsonTime = "2006-01-02T15:04:05.000Z07:00"

	hexDigits = "0123456789ABCDEF"
)

// entry contains the data of a line.
type entry struct {
	r      *http.Request
	line   *string // the request line as received, of a rejected request; otherwise nil
	status int
	bytes  int64
	at     time.Time
}

func (e *entry) appendText(b []byte, at string, combined bool) []byte {
	b = e.appendCommon(b, at)
	if combined {
		b = appendQuoted(append(b, ' '), orDash(e.r.Header.Get("Referer")))
		b = appendQuoted(append(b, ' '), orDash(e.r.Header.Get("User-Agent")))
	}
	return append(b, '\n')
}

func (e *entry) appendCommon(b []byte, at string) []byte {
	b = append(b, orDash(client(e.r))...)
	b = append(b, " - - ["...)
	b = append(b, at...)
	b = append(b, `] "`...)
	if e.line != nil {
		b = AppendEscaped(b, bounded(*e.line))
	} else {
		b = AppendEscaped(b, bounded(e.r.Method))
		b = append(b, ' ')
		b = AppendEscaped(b, bounded(e.r.RequestURI))
		b = append(b, ' ')
		b = AppendEscaped(b, bounded(e.r.Proto))
	}
	b = append(b, `" `...)
	b = strconv.AppendInt(b, int64(e.status), 10)
	b = append(b, ' ')
	if e.bytes == 0 {
		return append(b, '-')
	}
	return strconv.AppendInt(b, e.bytes, 10)
}

func (e *entry) appendJSON(b []byte, duration time.Duration) []byte {
	b = e.at.AppendFormat(append(b, `{"time":"`...), jsonTime)
	b = appendMember(append(b, '"'), "client", client(e.r))
	b = appendMember(b, "method", e.r.Method)
	b = appendMember(b, "host", e.r.Host)
	b = appendMember(b, "uri", e.r.RequestURI)
	b = appendMember(b, "protocol", e.r.Proto)
	b = strconv.AppendInt(append(b, `,"status":`...), int64(e.status), 10)
	b = strconv.AppendInt(append(b, `,"bytes":`...), e.bytes, 10)
	b = strconv.AppendInt(append(b, `,"duration_us":`...), duration.Microseconds(), 10)
	b = appendMember(b, "referer", e.r.Header.Get("Referer"))
	b = appendMember(b, "user_agent", e.r.Header.Get("User-Agent"))
	if e.line != nil {
		b = appendMember(b, "request", *e.line)
	}
	if e.r.TLS != nil {
		b = appendMember(b, "tls", tls.VersionName(e.r.TLS.Version))
	}
	return append(b, "}\n"...)
}

// Rejected returns the line of a request that no handler has seen: the server rejected it, or its
// head did not arrive in time. line is the request line as received. r contains what is known of
// the rest.
func (f Format) Rejected(r *http.Request, line string, status int, bytes int64) []byte {
	now := time.Now()
	e := entry{r: r, line: &line, status: status, bytes: bytes, at: now}
	if f == JSON {
		return e.appendJSON(nil, 0)
	}
	return e.appendText(nil, now.Format(clfTime), f == Combined)
}

// Lost returns a line about lost lines. It has the same fields as any line, so that programs can
// parse it.
func (f Format) Lost(lines int, why error) []byte {
	now, text := time.Now(), fmt.Sprintf("%d lines lost: %v", lines, why)
	if f == JSON {
		b := now.AppendFormat([]byte(`{"time":"`), jsonTime)
		b = strconv.AppendInt(append(b, `","lost":`...), int64(lines), 10)
		return append(appendMember(b, "why", why.Error()), "}\n"...)
	}
	b := now.AppendFormat([]byte("- - - ["), clfTime)
	b = appendQuoted(append(b, "] "...), text)
	b = append(b, " 0 -"...)
	if f == Combined {
		b = append(b, ` "-" "-"`...)
	}
	return append(b, '\n')
}

// client returns the address of the client; "" over a unix socket.
func client(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	return host
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func appendQuoted(b []byte, s string) []byte {
	return append(AppendEscaped(append(b, '"'), bounded(s)), '"')
}

func bounded(s string) string { return s[:min(len(s), maxField)] }

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

// appendMember appends a member to an object that has at least one. It replaces invalid UTF-8,
// because JSON requires UTF-8 (RFC 8259, 8.1).
func appendMember(b []byte, name, value string) []byte {
	b = append(append(append(b, `,"`...), name...), `":"`...)
	for _, r := range bounded(value) {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r < ' ' || r == 0x7f:
			b = append(b, '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&15])
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return append(b, '"')
}
