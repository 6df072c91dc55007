package exchange

import (
	"net/http"

	"github.com/tarehq/tare/internal/poison"
)

// maxReleasedFields limits the Header that is reused, because a map never shrinks.
const maxReleasedFields = 32

// released is the memory of an exchange that its handler has released.
type released struct {
	exchange *Exchange   // zeroed; nil if there is none
	header   http.Header // empty; may be nil
	made     *Exchange   // the last one of NewExchange: those of other protocols have other owners
}

// ReleaseRequest declares that neither the handler nor anything to which it has passed them will
// use the Request, its URL, its Header, its Body, its context or w after the handler has returned.
// Their memory then serves the next request. Strings are not reused. Only a handler that
// knows of all references can make this call. Without it, nothing is ever reused.
//
// It saves two of three allocations, and a third of the time of a small request in memory
// (BenchmarkReleased).
func (w *Response) ReleaseRequest() { w.Flags.Set(requestReleased) }

// KeepRequest overrides all calls of ReleaseRequest, earlier and later ones, for a handler that
// passes the request and w to code of others: that code may call the handler with them once more.
func (w *Response) KeepRequest() { w.Flags.Set(requestKept) }

// keepReleased keeps the memory of x for the next request, if its handler has released it and
// nothing in this package has given it to another goroutine: a context that was used may have
// waiters, and a body a reader. In builds with the tag poison the memory is zeroed, but not reused,
// so that a stale reference finds nil.
func (c *Conn) keepReleased(x *Exchange, contextUsed bool) {
	made := c.released.made
	c.released.made = nil // otherwise a conn that waits would hold the last request
	if !x.Response.Flags.Has(requestReleased) || contextUsed || x.Body.Mode != NoBody || x != made ||
		x.Response.Flags.Has(LargeHead|requestKept) {
		return
	}
	header := x.Request.Header
	if len(header) > maxReleasedFields {
		header = nil
	}
	clear(header)
	if *x = (Exchange{}); !poison.Enabled {
		c.released = released{exchange: x, header: header}
	}
}

// NewExchange returns an Exchange for the next request, and a map for its Header, or nil.
func (c *Conn) NewExchange() (*Exchange, http.Header) {
	x, header := c.released.exchange, c.released.header
	if x == nil {
		x = &Exchange{}
	}
	c.released = released{made: x}
	return x, header
}
