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
func (o *cachedOrigin) Request(opts cache.OriginRequest) cache.Fetch {
	o.sent = o.proxy.newRequest(o.x, o.target, &opts)
	o.header = withConfused(o.x.Host.Fields, o.sent.request.Header)
	return o.sent.do
}

// Field implements cache.Fields.
func (o *cachedOrigin) Field(name string) []string {
	switch {
	case cache.IsConditional(name):
		return nil
	case o.sent == nil:
		return o.fieldOf(name)
	case o.usesFastCGI:
		return paramOf(o.sent.request.Params, name)
	case name == "Host":
		return []string{o.sent.request.Host}
	}
	return o.header[name]
}

// fieldOf returns a field of the request that the exchange would send.
func (o *cachedOrigin) fieldOf(name string) []string {
	x, p := o.x, o.proxy
	switch names := x.Host.Fields; {
	case o.usesFastCGI:
		return p.fastcgi.field(x, name)
	case name == "Host":
		return []string{p.hostFor(x)}
	case names != (message.FieldNames{}), name == "Connection", name == "Upgrade", name == "Te":
		return withConfused(names, p.header.build(x, p.upstream.IsHTTP2, new(headerMemory)))[name]
	}
	var values []string
	if p.header.passes(name, x.Request.Header, x.Host.Fields) {
		values = x.Request.Header[name]
	}
	return p.header.appendField(x, slices.Clip(values), name)
}
