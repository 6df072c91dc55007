package proxy

import (
	"bytes"
	"maps"
	"net/http"
	"slices"

	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/message"
	"github.com/tarehq/tare/internal/wire/http1"
)

// The head of an upstream's response, or of one in the cache, passes as it is (core/rawhead.go), unless the
// response announces a trailer section, has a field that directs the front, or has to be stored, or
// the request selects a part of it. Fields that are hidden do not matter, and those that are rewritten
// follow the others. The values of $upstream_http_ are made when they are evaluated.

// headMemory is the memory of heads that pass, which is reused.
type headMemory struct {
	fields []http1.Field
	text   []byte // of heads with fields of the front's own
}

// maxKeptFields and maxKeptText limit the memory that is reused.
const maxKeptFields, maxKeptText = 64, 4 << 10

// spare returns the memory for another exchange.
func (m *headMemory) spare() headMemory {
	if cap(m.fields) > maxKeptFields || cap(m.text) > maxKeptText {
		return headMemory{}
	}
	return headMemory{m.fields[:0], m.text[:0]}
}

// passHead prepares to pass the head of a response, and reports whether it can. keepsDate is for
// stored responses.
func (p *proxy) passHead(x *core.Exchange, status int, head message.Head, keepsDate bool) bool {
	if !x.Response.TakesRawHeader(status) {
		return false
	}
	state, rewrites := stateOf(x), false
	sent := slices.Grow(state.heads.fields[:0], len(head.Fields)+1) // room for Age
	for i := range head.Fields {
		f := &head.Fields[i]
		fate := p.response.rawFate(f, head.Text)
		if fate&fieldDirects != 0 {
			return false
		}
		if fate&fieldIsDropped == 0 || keepsDate && f.Known == http1.NameDate {
			rewrites = rewrites || fate&fieldIsRewritten != 0
			sent = append(sent, *f)
		}
	}
	state.heads.fields, state.upstreamHeader = sent, nil
	x.Response.Raw = message.Head{Text: head.Text, Fields: sent}
	if rewrites {
		p.response.rewriteRawFields(x)
	}
	return true
}

// rewriteRawFields rewrites fields of the head. Those that this changes move to the Header.
func (r *responseRules) rewriteRawFields(x *core.Exchange) {
	raw, before := &x.Response.Raw, make(http.Header)
	for i := range raw.Fields {
		if f := &raw.Fields[i]; r.rawFate(f, raw.Text)&fieldIsRewritten != 0 {
			name := http.CanonicalHeaderKey(string(f.Name.In(raw.Text)))
			before[name] = append(before[name], string(f.Value.In(raw.Text)))
		}
	}
	after := maps.Clone(before)
	r.rewriteFields(x, after)
	for name, values := range after {
		if slices.Equal(values, before[name]) {
			continue
		}
		x.Response.Header()[name] = values
		raw.Fields = slices.DeleteFunc(raw.Fields, func(f http1.Field) bool {
			return bytes.EqualFold(f.Name.In(raw.Text), []byte(name))
		})
	}
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
