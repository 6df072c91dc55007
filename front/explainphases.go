package front

import (
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/tarehq/tare/front/conf"
)

// handshake adds a finding about the TLS handshake of a request, and reports whether it is
// rejected.
func (e *explanation) handshake(h *Handler, r *http.Request) (rejected bool) {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if r.TLS == nil || local == nil {
		return false
	}
	host, defaultHost := h.HostAt(local, r.TLS.ServerName)
	if host == nil {
		return false
	}
	if host.RejectHandshake {
		e.add(nil, "tls", host.Pos, "rejects the handshake")
		return true
	}
	for _, at := range []*conf.Host{host, defaultHost} {
		if names := certificateNames(at); names != "" {
			e.add(nil, "tls", at.Pos, "%s", names)
			return false
		}
	}
	return false
}

// certificateNames describes the certificates of a host.
func certificateNames(host *conf.Host) string {
	if host == nil {
		return ""
	}
	for _, l := range host.Listen {
		var all []string
		if l.Issued != nil {
			all = append(all, "one of the issuer "+l.Issued.Issuer)
		}
		for _, pair := range l.Certs {
			all = append(all, pair.Cert)
		}
		if l.TLS && len(all) > 0 {
			return "certificate " + strings.Join(all, ", or ")
		}
	}
	return ""
}

// explainCondition adds a finding to the condition of an If.
func (c *compiler) explainCondition(s conf.If, holds func(*exchange) bool) func(*exchange) bool {
	e := c.options.explain
	if e == nil {
		return holds
	}
	condition := strings.TrimSpace(fmt.Sprintf("%s %s %s", s.Left, s.Op, s.Right))
	if strings.HasPrefix(strings.TrimPrefix(s.Op, "!"), "-") {
		condition = fmt.Sprintf("%s %s", s.Op, s.Left)
	}
	return func(x *exchange) bool {
		result := holds(x)
		e.add(x, "rewrite", s.Pos, "if (%s): %v", condition, result)
		return result
	}
}

// explainCycle adds a finding about too many internal redirects.
func (x *exchange) explainCycle() {
	if e := x.plan.options.explain; e != nil {
		e.add(x, "rewrite", "", "more than %d internal redirects", maxRedirects)
	}
}
