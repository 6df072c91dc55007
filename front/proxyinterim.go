package front

import (
	"maps"
	"net/http"
	"slices"
)

// Interim implements fetch.Observer: it forwards a 1xx response while the request waits for its final
// response (RFC 9110, 15.2). It drops an upstream's 100, because the server has sent its own to a
// client that waits for one.
func (s *upstreamRequest) Interim(status int, h http.Header) {
	x := s.exchange
	if x == nil || status <= http.StatusContinue || status == http.StatusSwitchingProtocols ||
		!x.r.ProtoAtLeast(1, 1) || !x.w.untouched() || status == http.StatusEarlyHints && !x.wantsEarlyHints() {
		return
	}
	header := x.w.Header()
	before := maps.Clone(header)
	clear(header)
	rules := s.proxy.response
	rules.copyFields(header, h)
	delete(header, "Content-Length")
	rules.rewriteFields(x, header)
	x.w.WriteHeader(status)
	clear(header)
	maps.Copy(header, before)
}

// wantsEarlyHints reports whether early hints are forwarded.
func (x *exchange) wantsEarlyHints() bool {
	return x.loc.earlyHints == nil ||
		slices.ContainsFunc(x.loc.earlyHints, func(t text) bool { return t.isTrue(x) })
}

// untouched reports whether no response has begun.
func (w *writer) untouched() bool { return w.status == 0 && w.withheldStatus == 0 }
