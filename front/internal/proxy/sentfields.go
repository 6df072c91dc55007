package proxy

import (
	"net/http"
	"slices"

	"github.com/tarehq/tare/front/internal/cache"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/fetch"
	"github.com/tarehq/tare/front/internal/message"
)

// sentFields are the fields that the upstream of a cached exchange receives. Before the request is
// built they are made one by one: most requests end with a stored response.
type sentFields struct {
	proxy       *proxy
	x           *core.Exchange
	usesFastCGI bool

	request *fetch.Request // nil before it is built
	header  http.Header    // of request, for the cache
}

// set records the request that the upstream receives. From then on Field does not use the exchange.
func (f *sentFields) set(q *fetch.Request) {
	f.request, f.header = q, withConfused(f.x.Host.Fields, q.Header)
}

// Field implements cache.Fields.
func (f *sentFields) Field(name string) []string {
	switch {
	case cache.IsConditional(name):
		return nil
	case f.request == nil:
		return f.fieldOf(f.x, name)
	case f.usesFastCGI:
		return paramOf(f.request.Params, name)
	case name == "Host":
		return []string{f.request.Host}
	}
	return f.header[name]
}

// fieldOf returns a field of the request that the exchange would send.
func (f *sentFields) fieldOf(x *core.Exchange, name string) []string {
	p, isHTTP2 := f.proxy, f.proxy.upstream.IsHTTP2
	switch names := x.Host.Fields; {
	case f.usesFastCGI:
		return p.fastcgi.field(x, name)
	case name == "Host":
		return []string{p.hostFor(x, stateOf(x).target.host)}
	case names != (message.FieldNames{}), name == "Connection", name == "Upgrade", name == "Te":
		return withConfused(names, p.header.build(x, isHTTP2, new(headerMemory)))[name]
	}
	var values []string
	if p.header.passes(name, x.Request.Header, x.Host.Fields) {
		values = x.Request.Header[name]
	}
	return p.header.appendField(x, slices.Clip(values), name)
}
