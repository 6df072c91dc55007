package front

import (
	"maps"
	"net/http"
	"slices"

	"github.com/tarehq/tare/internal/wire/http1"
)

// Interim implements fetch.Caller: it forwards a 1xx response while the request waits for its final
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
	rules.copyInterim(header, h)
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

// copyInterim copies the header of a 1xx response, as far as the client receives it.
func (r *responseRules) copyInterim(to, from http.Header) {
	dropped := from["Connection"]
	for name, values := range from {
		if name != "Content-Length" && !http1.ConcernsConnection(name) && !r.hidden[name] &&
			!http1.HasToken(dropped, name) {
			to[name] = values
		}
	}
}

// untouched reports whether no response has begun.
func (w *writer) untouched() bool { return w.status == 0 && w.withheldStatus == 0 }
