package http2

import (
	"bytes"
	"math/bits"

	"github.com/tarehq/tare/internal/wire/http1"
)

// HeaderBlock is a decoded field block. Its spans refer to Text. The zero value is ready, and its
// memory is reused by each Decode.
type HeaderBlock struct {
	Text   []byte
	Fields []http1.Field // without pseudo-header fields; Name is empty if Known is not NameUnknown

	// The pseudo-header fields, empty if absent (RFC 9113, 8.3; RFC 8441, 4).
	Method, Scheme, Authority, Path, Protocol, Status http1.Span

	Length     int64 // of Content-Length; -1 if absent
	IsTooLarge bool  // the list exceeds its limits; the fields that exceed them are missing

	scratch []byte // a name and a value that are being decoded

	fault   string
	seen    uint8 // the pseudo-header fields that occurred, as bits
	size    int   // list size
	count   int   // of fields
	copied  int   // size of the names that literals took from the dynamic table
	cookies int   // fields of that name
	host    http1.Span
	limits  http1.Limits
	hosts   int
	hasTE   bool
}

func (b *HeaderBlock) reset(limits http1.Limits) {
	*b = HeaderBlock{Text: b.Text[:0], Fields: b.Fields[:0], scratch: b.scratch[:0], Length: -1, limits: limits}
}

// Trim drops memory that a very large block has grown. Text of some size is kept: growing it leaves
// twice as much garbage, which was half of the memory during a flood of heads that repeat a field.
func (b *HeaderBlock) Trim() {
	const keptText, keptScratch, keptFields = 512 << 10, 4 << 10, 64
	if cap(b.Text) > keptText {
		b.Text = nil
	}
	if cap(b.scratch) > keptScratch {
		b.scratch = nil
	}
	if cap(b.Fields) > keptFields {
		b.Fields = nil
	}
}

func (b *HeaderBlock) setFault(what string) {
	if b.fault == "" {
		b.fault = what
	}
}

// add counts a field and checks what does not depend on its text. It reports whether the block
// keeps the field.
func (b *HeaderBlock) add(info nameInfo, isValue bool, nameSize, valueSize int) bool {
	b.size += nameSize + valueSize + entryOverhead
	b.count++
	if b.size > b.limits.Bytes || b.count > b.limits.Fields {
		b.IsTooLarge = true
		return false
	}
	if !isValue {
		b.setFault("invalid field value")
	}
	switch kind := info.kind; {
	case kind.isPseudo():
		bit := uint8(1) << kind
		if b.seen&bit != 0 {
			b.setFault("duplicate pseudo-header field")
		}
		if b.count-1 > bits.OnesCount8(b.seen) {
			b.setFault("pseudo-header field after a field")
		}
		b.seen |= bit
	case kind == kindBadPseudo:
		b.setFault("unknown pseudo-header field")
	case kind == kindBadName:
		b.setFault("invalid field name")
	case kind == kindConnection:
		b.setFault("field of HTTP/1 connections")
	}
	return true
}

// addText keeps a field. As over HTTP/1, space around its value is removed. The message is
// malformed (RFC 9113, 8.2.1), but net/http's client sends it.
func addText[T string | []byte](b *HeaderBlock, info nameInfo, name, value T) {
	f := http1.Field{Known: info.known}
	if !info.kind.isPseudo() {
		if value = trimSpace(value); info.known == http1.NameUnknown {
			f.Name.Start = uint32(len(b.Text))
			b.Text = append(b.Text, name...)
			f.Name.End = uint32(len(b.Text))
		}
	}
	f.Value.Start = uint32(len(b.Text))
	b.Text = append(b.Text, value...)
	f.Value.End = uint32(len(b.Text))
	if info.kind.isKept() {
		b.Fields = append(b.Fields, f)
	}
	switch info.kind {
	case kindMethod:
		b.Method = f.Value
	case kindScheme:
		b.Scheme = f.Value
	case kindAuthority:
		b.Authority = f.Value
	case kindPath:
		b.Path = f.Value
	case kindProtocol:
		b.Protocol = f.Value
	case kindStatus:
		b.Status = f.Value
	case kindTE:
		if te := string(f.Value.In(b.Text)); b.hasTE || te != "trailers" && te != "" { // as in net/http
			b.setFault("TE field other than trailers")
		}
		b.hasTE = true
	case kindContentLength:
		b.setLength(f.Value.In(b.Text))
	case kindHost:
		b.host = f.Value
		b.hosts++
	case kindCookie:
		b.cookies++
	}
}

// Host returns the value of :authority or, without that, of Host.
func (b *HeaderBlock) Host() http1.Span {
	if b.Authority.Start == b.Authority.End {
		return b.host
	}
	return b.Authority
}

// Header makes net/http's Header of the fields. canonical spells names as in http1.Collector.
func (b *HeaderBlock) Header(canonical func(string) string) map[string][]string {
	text, c := http1.TextOf(b.Text), http1.Collect(nil, len(b.Fields), nil)
	c.AddFields(b.Fields, &text, canonical)
	return c.Fields
}

// Trailer is Header for a trailer section. It drops fields that such a section must not have.
func (b *HeaderBlock) Trailer(canonical func(string) string) map[string][]string {
	all := b.Header(canonical)
	for name := range all {
		if !http1.TrailerAllowed(name) {
			delete(all, name)
		}
	}
	return all
}

// setLength sets Length. Several fields must be equal.
func (b *HeaderBlock) setLength(value []byte) {
	n, fault := http1.ParseLength(value)
	if fault != "" || b.Length >= 0 && b.Length != n {
		b.setFault("invalid Content-Length")
		return
	}
	b.Length = n
}

func (b *HeaderBlock) has(k nameKind) bool { return b.seen&(1<<k) != 0 }

// CheckRequest completes the head of a request. It returns the fault of a malformed one, or "" (RFC
// 9113, 8.3.1; RFC 8441, 4). A block that is too large is not checked for what may be missing.
func (b *HeaderBlock) CheckRequest() (fault string) {
	if b.fault == "" && !b.IsTooLarge {
		b.fault = b.requestFault()
	}
	if b.cookies > 1 {
		b.joinCookies()
	}
	return b.fault
}

func (b *HeaderBlock) requestFault() string {
	method, path := b.Method.In(b.Text), b.Path.In(b.Text)
	isConnect := string(method) == "CONNECT"
	switch {
	case b.has(kindStatus):
		return "pseudo-header field of a response"
	case !http1.ValidToken(method):
		return "missing or invalid :method"
	case b.has(kindProtocol) && !isConnect:
		return "misplaced :protocol"
	case b.has(kindProtocol) && !http1.ValidToken(b.Protocol.In(b.Text)):
		return "invalid :protocol"
	case isConnect && !b.has(kindProtocol):
		if b.has(kindScheme) || b.has(kindPath) || b.Authority.Start == b.Authority.End {
			return "malformed CONNECT request"
		}
	case !isScheme(b.Scheme.In(b.Text)):
		return "missing or invalid :scheme"
	case !isPath(method, path):
		return "missing or invalid :path"
	}
	if b.has(kindAuthority) && !http1.ValidHost(b.Authority.In(b.Text)) || b.hosts > 1 ||
		b.hosts == 1 && !http1.ValidHost(b.host.In(b.Text)) {
		return "invalid :authority or Host"
	}
	if b.hosts == 1 && b.has(kindAuthority) && !bytes.EqualFold(b.host.In(b.Text), b.Authority.In(b.Text)) {
		return "Host differs from :authority"
	}
	return ""
}

func isScheme(b []byte) bool { return string(b) == "http" || string(b) == "https" }

// isPath reports whether path is "*", or begins with a slash and contains no space or control byte.
// As over HTTP/1, "*" is accepted with any method except CONNECT.
func isPath(method, path []byte) bool {
	if string(path) == "*" {
		return string(method) != "CONNECT"
	}
	return http1.ValidTarget(path) && path[0] == '/'
}

// joinCookies makes one Cookie field of several (RFC 9113, 8.2.3).
func (b *HeaderBlock) joinCookies() {
	isCookie := func(f http1.Field) bool { return f.Known.String() == "Cookie" }
	joined := http1.Span{Start: uint32(len(b.Text))}
	kept := b.Fields[:0]
	at := -1
	for _, f := range b.Fields {
		switch {
		case !isCookie(f):
			kept = append(kept, f)
			continue
		case at < 0:
			at = len(kept)
			kept = append(kept, f)
		default:
			b.Text = append(b.Text, "; "...)
		}
		b.Text = append(b.Text, f.Value.In(b.Text)...)
	}
	joined.End = uint32(len(b.Text))
	kept[at].Value, b.Fields = joined, kept
}

// CheckTrailers returns the fault of a malformed trailer section, or "" (RFC 9113, 8.1).
func (b *HeaderBlock) CheckTrailers() (fault string) {
	if b.fault == "" && b.seen != 0 {
		b.fault = "pseudo-header field in a trailer section"
	}
	return b.fault
}

// CheckResponse returns the fault of a malformed head of a response, or "" (RFC 9113, 8.3.2).
func (b *HeaderBlock) CheckResponse() (fault string) {
	if b.fault == "" && (b.seen != 1<<kindStatus || b.StatusCode() == 0) {
		b.fault = "missing or invalid :status"
	}
	return b.fault
}

// StatusCode returns the status of a response, or 0 if it is malformed.
func (b *HeaderBlock) StatusCode() int { return http1.ParseStatus(b.Status.In(b.Text)) }
