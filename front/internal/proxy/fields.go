package proxy

import (
	"bytes"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/wire/http1"
)

// The head of an upstream's response passes through the front as it was received, with the order
// and spelling of its fields, unless something has to see it as an http.Header:
//
//	the server     sends no such head: net/http's, and tare's for HTTP/2
//	the request    is a subrequest, an error page, or has fields of an earlier response
//	the location   has a filter that reads or replaces fields
//	a cache        has to store the response, or the request selects a part of it
//	the response   is a 101, a 426, an error that proxy_intercept_errors concerns, announces a
//	               trailer section, or has a field that directs the front
//
// Fields that are hidden or added do not matter. Those that are rewritten or added follow the
// others. The values of $upstream_http_ and $sent_http_ are made when they are evaluated.

// rawHead is the head of a response that passes as it was received.
type rawHead struct {
	sender connection.RawSender // nil if no head passes
	text   []byte
	sent   []http1.Field // those of text that are sent as they are; the memory is reused
}

// maxKeptFields limits the fields whose memory is reused.
const maxKeptFields = 64

// spare returns the memory for another exchange.
func (h *rawHead) spare() rawHead {
	if cap(h.sent) > maxKeptFields {
		return rawHead{}
	}
	return rawHead{sent: h.sent[:0]}
}

// canPassHead reports whether the head of a response passes, as far as that does not depend on its
// fields.
func canPassHead(x *core.Exchange, status int) (connection.RawSender, bool) {
	switch {
	case status == http.StatusSwitchingProtocols, status == http.StatusUpgradeRequired,
		x.InterceptsErrors && status >= http.StatusMultipleChoices:
		return nil, false
	case x.Parent != nil, x.ErrorStatus != 0, !untouched(&x.Response), x.BodyStatus.Load() != 0,
		x.Loc.NeedsHeader:
		return nil, false
	}
	s, ok := x.Response.ResponseWriter.(connection.RawSender)
	return s, ok && !s.HasFields()
}

// passHead prepares to pass the head of a response, and reports whether it can. keepsDate is for
// stored responses.
func (p *proxy) passHead(x *core.Exchange, status int, text []byte, fields []http1.Field, keepsDate bool) bool {
	sender, ok := canPassHead(x, status)
	if !ok {
		return false
	}
	state := stateOf(x)
	raw, rewrites := &state.raw, false
	raw.sent = slices.Grow(raw.sent[:0], len(fields))
	for i := range fields {
		f := &fields[i]
		fate := p.response.rawFate(f, text)
		if fate&fieldDirects != 0 {
			return false
		}
		if fate&fieldIsDropped == 0 || keepsDate && f.Known == http1.NameDate {
			rewrites = rewrites || fate&fieldIsRewritten != 0
			raw.sent = append(raw.sent, *f)
		}
	}
	raw.sender, raw.text, state.upstreamHeader = sender, text, nil
	if rewrites {
		p.response.rewriteRawFields(x)
	}
	return true
}

// rewriteRawFields rewrites fields of the head. Those that this changes move to the Header.
func (r *responseRules) rewriteRawFields(x *core.Exchange) {
	raw, before := &stateOf(x).raw, make(http.Header)
	for i := range raw.sent {
		if f := &raw.sent[i]; r.rawFate(f, raw.text)&fieldIsRewritten != 0 {
			name := http.CanonicalHeaderKey(string(f.Name.In(raw.text)))
			before[name] = append(before[name], string(f.Value.In(raw.text)))
		}
	}
	after := maps.Clone(before)
	r.rewriteFields(x, after)
	for name, values := range after {
		if slices.Equal(values, before[name]) {
			continue
		}
		x.Response.Header()[name] = values
		raw.sent = slices.DeleteFunc(raw.sent, func(f http1.Field) bool {
			return bytes.EqualFold(f.Name.In(raw.text), []byte(name))
		})
	}
}

// sendRawHead sends the head that passHead has prepared, unless the request's body has meanwhile
// turned out to be invalid: an error page then replaces the response.
func sendRawHead(x *core.Exchange, status int) {
	raw := &stateOf(x).raw
	if x.BodyStatus.Load() != 0 {
		raw.sender = nil
		x.Response.WriteHeader(status)
		return
	}
	x.Response.Status = status
	if x.Loc.AddsFields() {
		x.Loc.ChangeHeader(x, x.Response.Header(), status)
	}
	x.Response.StartLimits()
	raw.sender.WriteRawHeader(status, raw.text, raw.sent)
}

// rawHeadOf returns the head that has passed as it was received, or nil.
func rawHeadOf(x *core.Exchange) *rawHead {
	if x.Proxy == nil || stateOf(x).raw.sender == nil {
		return nil
	}
	return &stateOf(x).raw
}

// sentField returns the values of a field that is sent to the client.
func sentField(x *core.Exchange, name string) []string {
	var values []string
	if raw := rawHeadOf(x); raw != nil {
		for i := range raw.sent {
			if f := &raw.sent[i]; bytes.EqualFold(f.Name.In(raw.text), []byte(name)) {
				values = append(values, string(f.Value.In(raw.text)))
			}
		}
	}
	return append(values, x.Response.Header()[name]...)
}

// rawFate is fate for a field of a head.
func (r *responseRules) rawFate(f *http1.Field, head []byte) fieldFate {
	switch value := f.Value.In(head); {
	case f.Known == http1.NameConnection && !bytes.EqualFold(value, []byte("keep-alive")) &&
		!bytes.EqualFold(value, []byte("close")):
		return fieldDirects // it may name fields
	case f.ConcernsConnection(head):
		return fieldIsDropped
	case !r.markedNames[markIndex(f.Name.In(head))]:
		return 0
	}
	name := f.Known.String()
	if name == "" {
		name = http.CanonicalHeaderKey(string(f.Name.In(head)))
	}
	return r.fates[name]
}

// bytesSent is $bytes_sent: the length of the body, and of the head as HTTP/1 would write it. It is
// exact for tunnels only.
func bytesSent(x *core.Exchange) string {
	const line, field = len("HTTP/1.1 200 OK\r\n\r\n"), len(": \r\n")
	switch {
	case x.LoggedStatus != 0, x.ResponseStatus() == 0:
		return "0"
	case x.Response.SwitchBytes > 0:
		return strconv.FormatInt(x.Response.SwitchBytes+x.Response.Sent, 10)
	}
	n := x.ResponseBytes() + int64(line)
	for name, values := range x.Response.Header() {
		for _, v := range values {
			n += int64(len(name) + len(v) + field)
		}
	}
	if raw := rawHeadOf(x); raw != nil {
		for i := range raw.sent {
			f := &raw.sent[i]
			n += int64(len(f.Name.In(raw.text)) + len(f.Value.In(raw.text)) + field)
		}
	}
	return strconv.FormatInt(n, 10)
}
