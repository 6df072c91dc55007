package proxy

import (
	"net/http"
	"slices"

	"github.com/tarehq/tare/front/internal/cache"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/message"
)

// cachedOrigin is the cache.Origin of an exchange. Before the request is built its fields are made one
// by one: most requests end with a stored response.
type cachedOrigin struct {
	proxy       *proxy
	x           *core.Exchange
	target      destination
	usesFastCGI bool

	sent   *upstreamRequest // the last one; nil before it is built
	header http.Header      // of sent, for the cache
}

// Request implements cache.Origin. From then on Field does not use the exchange.
func (f *cachedOrigin) Request(opts cache.OriginRequest) cache.Fetch {
	f.sent = f.proxy.newRequest(f.x, f.target, &opts)
	f.header = withConfused(f.x.Host.Fields, f.sent.request.Header)
	return f.sent.do
}

// Field implements cache.Fields.
func (f *cachedOrigin) Field(name string) []string {
	switch {
	case cache.IsConditional(name):
		return nil
	case f.sent == nil:
		return f.fieldOf(f.x, name)
	case f.usesFastCGI:
		return paramOf(f.sent.request.Params, name)
	case name == "Host":
		return []string{f.sent.request.Host}
	}
	return f.header[name]
}

// fieldOf returns a field of the request that the exchange would send.
func (f *cachedOrigin) fieldOf(x *core.Exchange, name string) []string {
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
