package front

import (
	"bytes"
	"maps"
	"net/http"
	"slices"
	"strconv"

	"github.com/tarehq/tare/internal/client"
	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/wire/http1"
)

// The head of an upstream's response passes through the front as it was received, with the order
// and spelling of its fields, unless something has to see it as an http.Header:
//
//	the server     sends no such head: net/http's, and tare's for HTTP/2
//	the request    is a subrequest, an error page, or has fields of an earlier response
//	the location   has a cache, or a filter that reads or replaces fields
//	the response   is a 101, a 426, an error that proxy_intercept_errors concerns, announces a
//	               trailer section, or has a field that directs the front
//
// Fields that are hidden or added do not matter. Those that are rewritten or added follow the
// others. The values of $upstream_http_ and $sent_http_ are made when they are evaluated.

// rawHead is the head of a response that passes as it was received.
type rawHead struct {
	sender connection.RawSender // nil if no head passes
	head   *client.Head
	sent   []http1.Field // those of head that are sent as they are; the memory is reused
}

// maxKeptFields limits the memory of rawHead.sent that is reused.
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
func (x *exchange) canPassHead(status int) (connection.RawSender, bool) {
	switch {
	case status == http.StatusSwitchingProtocols, status == http.StatusUpgradeRequired,
		x.interceptsErrors && status >= http.StatusMultipleChoices:
		return nil, false
	case x.parent != nil, x.errorStatus != 0, !x.w.untouched(), x.bodyStatus.Load() != 0, x.loc.filters.needsHeader:
		return nil, false
	}
	s, ok := x.w.ResponseWriter.(connection.RawSender)
	return s, ok && !s.HasFields()
}

// passHead prepares to pass the head of a response, and reports whether it can.
func (p *proxy) passHead(x *exchange, status int) bool {
	sender, ok := x.canPassHead(status)
	if !ok {
		return false
	}
	head, rewrites := stateOf(x).clientMemory.Head(), false
	stateOf(x).raw.sent = slices.Grow(stateOf(x).raw.sent[:0], len(head.Fields))
	for i := range head.Fields {
		f := &head.Fields[i]
		fate := p.response.rawFate(f, head.Text)
		if fate&fieldDirects != 0 {
			return false
		}
		if fate&fieldIsDropped == 0 {
			rewrites = rewrites || fate&fieldIsRewritten != 0
			stateOf(x).raw.sent = append(stateOf(x).raw.sent, *f)
		}
	}
	stateOf(x).raw.sender, stateOf(x).raw.head, stateOf(x).upstreamHeader = sender, head, nil
	if rewrites {
		p.response.rewriteRawFields(x)
	}
	return true
}

// rewriteRawFields rewrites fields of the head. Those that this changes move to the Header.
func (r *responseRules) rewriteRawFields(x *exchange) {
	raw, before := &stateOf(x).raw, make(http.Header)
	for i := range raw.sent {
		if f := &raw.sent[i]; r.rawFate(f, raw.head.Text)&fieldIsRewritten != 0 {
			name := http.CanonicalHeaderKey(string(f.Name.In(raw.head.Text)))
			before[name] = append(before[name], string(f.Value.In(raw.head.Text)))
		}
	}
	after := maps.Clone(before)
	r.rewriteFields(x, after)
	for name, values := range after {
		if slices.Equal(values, before[name]) {
			continue
		}
		x.w.Header()[name] = values
		raw.sent = slices.DeleteFunc(raw.sent, func(f http1.Field) bool {
			return bytes.EqualFold(f.Name.In(raw.head.Text), []byte(name))
		})
	}
}

// sendRawHead sends the head that passHead has prepared, unless the request's body has meanwhile
// turned out to be invalid: an error page then replaces the response.
func (x *exchange) sendRawHead(status int) {
	if x.bodyStatus.Load() != 0 {
		stateOf(x).raw.sender = nil
		x.w.WriteHeader(status)
		return
	}
	x.w.status = status
	if f := x.loc.filters; f.addsFields() {
		f.changeHeader(x, x.w.Header(), status)
	}
	x.w.startLimits(x.loc.filters)
	stateOf(x).raw.sender.WriteRawHeader(status, stateOf(x).raw.head.Text, stateOf(x).raw.sent)
}

// rawHead returns the head that has passed as it was received, or nil.
func (x *exchange) rawHead() *rawHead {
	if x.proxy == nil || stateOf(x).raw.sender == nil {
		return nil
	}
	return &stateOf(x).raw
}

// sentField returns the values of a field that is sent to the client.
func (x *exchange) sentField(name string) []string {
	values := x.w.Header()[name]
	if raw := x.rawHead(); raw != nil {
		var own []string
		for i := range raw.sent {
			if f := &raw.sent[i]; bytes.EqualFold(f.Name.In(raw.head.Text), []byte(name)) {
				own = append(own, string(f.Value.In(raw.head.Text)))
			}
		}
		return append(own, values...)
	}
	return values
}

// rawFate is fate for a field of a head.
func (r *responseRules) rawFate(f *http1.Field, head []byte) fieldFate {
	switch value := f.Value.In(head); {
	case f.Known == http1.NameConnection && !bytes.EqualFold(value, []byte("keep-alive")) &&
		!bytes.EqualFold(value, []byte("close")):
		return fieldDirects // it may name fields
	case f.ConcernsConnection(head):
		return fieldIsDropped
	case !r.markedNames.hasBytes(f.Name.In(head)):
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
func bytesSent(x *exchange) string {
	const line, field = len("HTTP/1.1 200 OK\r\n\r\n"), len(": \r\n")
	switch {
	case x.loggedStatus != 0:
		return "0"
	case x.w.switchBytes > 0:
		return strconv.FormatInt(x.w.switchBytes+x.w.sent, 10)
	}
	n := x.responseBytes() + int64(line)
	for name, values := range x.w.Header() {
		for _, v := range values {
			n += int64(len(name) + len(v) + field)
		}
	}
	if raw := x.rawHead(); raw != nil {
		for i := range raw.sent {
			f := &raw.sent[i]
			n += int64(len(f.Name.In(raw.head.Text)) + len(f.Value.In(raw.head.Text)) + field)
		}
	}
	return strconv.FormatInt(n, 10)
}
