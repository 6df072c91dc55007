package proxy

import (
	"maps"
	"net/http"

	"github.com/tarehq/tare/front/internal/core"
)

// Interim implements fetch.Observer: it forwards a 1xx response while the request waits for its final
// response (RFC 9110, 15.2). It drops an upstream's 100, because the server has sent its own to a
// client that waits for one.
func (s *upstreamRequest) Interim(status int, h http.Header) {
	x := s.exchange
	if x == nil || status <= http.StatusContinue || status == http.StatusSwitchingProtocols ||
		!x.Request.ProtoAtLeast(1, 1) || !untouched(&x.Response) || status == http.StatusEarlyHints &&
		x.Loc.EarlyHints != nil && !anyTrue(x.Loc.EarlyHints, x) {
		return
	}
	header := x.Response.Header()
	before := maps.Clone(header)
	clear(header)
	rules := s.proxy.response
	rules.copyFields(header, h)
	delete(header, "Content-Length")
	rules.rewriteFields(x, header)
	x.Response.WriteHeader(status)
	clear(header)
	maps.Copy(header, before)
}

// untouched reports whether no response has begun.
func untouched(w *core.Writer) bool { return w.Status == 0 && w.WithheldStatus == 0 }
