package http1

import (
	"bytes"
	"math"
	"net/netip"
)

// Mode is how the end of a body is marked (RFC 9112, 6.3).
type Mode uint8

const (
	NoBody     Mode = iota // there is no body
	ByLength               // after Framing.Length bytes
	ByChunks               // after the chunk of size zero and the trailer section
	UntilClose             // when the connection closes; responses only
)

// Framing is the extent of a message's body.
type Framing struct {
	Mode   Mode
	Length int64 // for ByLength; else 0
}

// facts is what the field lines specify about framing, routing and the connection.
type facts struct {
	hasLength, hasCoding, hasHost bool
	hasExpect                     bool
	close, keepAlive              bool
	expectContinue, expectOther   bool

	length int64 // valid if hasLength
	host   Span  // valid if hasHost
}

// Host returns the offsets of the Host field's value, and whether there is one.
func (f *facts) Host() (Span, bool) { return f.host, f.hasHost }

// Length returns the value of Content-Length, and whether there is one.
func (f *facts) Length() (n int64, ok bool) { return f.length, f.hasLength }

// IsChunked reports whether the Transfer-Encoding is chunked.
func (f *facts) IsChunked() bool { return f.hasCoding }

// ExpectsContinue reports in yes whether the first Expect field contains 100-continue, and in unmet
// whether it contains anything else instead. As in net/http, further Expect fields are ignored.
func (f *facts) ExpectsContinue() (yes, unmet bool) {
	return f.expectContinue, f.expectOther && !f.expectContinue
}

func (f *facts) record(name Name, value []byte, offset int) error {
	switch name {
	case NameContentLength:
		return f.recordLength(value, offset)
	case NameTransferEncoding:
		if f.hasCoding || !EqualFold(value, "chunked") {
			return fault(UnknownCoding, offset, "unknown transfer coding")
		}
		f.hasCoding = true
	case NameHost:
		if f.hasHost {
			return malformed(offset, "second Host")
		}
		if len(value) > 0 && !ValidHost(value) { // Host is empty if the target has no authority
			return malformed(offset, "malformed Host")
		}
		f.hasHost, f.host = true, SpanOf(offset, offset+len(value))
	case NameConnection:
		for token := range Elements(value) {
			f.close = f.close || EqualFold(token, "close")
			f.keepAlive = f.keepAlive || EqualFold(token, "keep-alive")
		}
	case NameExpect:
		if f.hasExpect {
			break
		}
		f.hasExpect, f.expectOther = true, len(value) > 0
		for token := range Elements(value) {
			f.expectContinue = f.expectContinue || EqualFold(token, "100-continue")
		}
	}
	return nil
}

func (f *facts) recordLength(value []byte, offset int) error {
	if f.hasLength {
		return malformed(offset, "second Content-Length")
	}
	var fault string
	if f.length, fault = ParseLength(value); fault != "" {
		return malformed(offset, fault)
	}
	f.hasLength = true
	return nil
}

// ParseLength parses the value of a Content-Length field. It accepts digits only: no sign, no list,
// nothing that another reader of the same bytes might parse as another number. The fault is "" if
// the value is valid.
func ParseLength(value []byte) (n int64, fault string) {
	if len(value) == 0 || span(value, digitByte) != len(value) {
		return 0, "malformed Content-Length"
	}
	for _, c := range value {
		d := int64(c - '0')
		if n > (math.MaxInt64-d)/10 {
			return 0, "Content-Length out of range"
		}
		n = n*10 + d
	}
	return n, ""
}

func (r *Request) finish(b []byte) error {
	if err := r.checkCoding(); err != nil {
		return err
	}
	if !r.hasHost && r.Minor > 0 && string(r.Method.In(b)) != "CONNECT" { // CONNECT's target names the host
		return malformed(r.Size, "missing Host")
	}
	return nil
}

// checkCoding rejects the combinations for which two readers of one message may see different
// bodies.
func (h *Head) checkCoding() error {
	switch {
	case h.hasCoding && h.hasLength:
		return malformed(h.Size, "both Transfer-Encoding and Content-Length")
	case h.hasCoding && h.Minor == 0:
		return malformed(h.Size, "Transfer-Encoding on HTTP/1.0")
	}
	return nil
}

// KeepsAlive reports whether the message requests a persistent connection by keep-alive, as before
// HTTP/1.1 (RFC 9112, C.2.2). The head must be complete.
func (h *Head) KeepsAlive() bool { return h.keepAlive && !h.close }

// IsPersistent reports whether the connection can be reused after this message (RFC 9112, 9.3). The
// head must be complete.
func (h *Head) IsPersistent() bool { return !h.close && (h.Minor > 0 || h.keepAlive) }

// Body returns the extent of the request's body. The head must be complete.
func (r *Request) Body() Framing {
	switch {
	case r.hasCoding:
		return Framing{Mode: ByChunks}
	case r.hasLength && r.length > 0:
		return Framing{Mode: ByLength, Length: r.length}
	}
	return Framing{}
}

// Body returns the extent of the response's body. head reports whether the request was a HEAD. The
// head must be complete.
func (r *Response) Body(head bool) Framing {
	switch {
	case head || !BodyAllowed(r.Status):
		return Framing{}
	case r.hasCoding:
		return Framing{Mode: ByChunks}
	case r.hasLength && r.length > 0:
		return Framing{Mode: ByLength, Length: r.length}
	case r.hasLength:
		return Framing{}
	}
	return Framing{Mode: UntilClose}
}

// BodyAllowed reports whether a response with this status can have a body.
func BodyAllowed(status int) bool {
	return status >= 200 && status != 204 && status != 304
}

// ValidHost reports whether b is a valid value of a Host field: a name or an IP literal, and
// optionally a port (RFC 9110, 7.2). An empty value is invalid, because it cannot be routed.
func ValidHost(b []byte) bool {
	n := span(b, hostByte)
	if len(b) > 0 && b[0] == '[' {
		if n = bytes.IndexByte(b, ']') + 1; n == 0 || !ipv6(b[1:n-1]) && !ipFuture(b[1:n-1]) {
			return false
		}
	}
	if n == 0 {
		return false
	}
	return n == len(b) || b[n] == ':' && span(b[n+1:], digitByte) == len(b)-n-1
}

// ipFuture reports whether b is an address of a later version of IP (RFC 3986, 3.2.2).
func ipFuture(b []byte) bool {
	version, address, _ := bytes.Cut(b, []byte("."))
	return len(version) > 1 && version[0]|0x20 == 'v' && span(version[1:], hexByte) == len(version)-1 &&
		len(address) > 0 && span(bytes.ReplaceAll(address, []byte(":"), []byte("a")), hostByte) == len(address)
}

// ipv6 reports whether b is an IPv6 address without a zone.
func ipv6(b []byte) bool {
	a, err := netip.ParseAddr(string(b))
	return err == nil && a.Is6() && a.Zone() == ""
}
