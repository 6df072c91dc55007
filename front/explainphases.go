package front

import (
	"net"
	"net/http"
	"strings"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/core"
)

// handshake adds a finding about the TLS handshake of a request, and reports whether it is
// rejected.
func handshake(e *core.Explanation, h *Handler, r *http.Request) (rejected bool) {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if r.TLS == nil || local == nil {
		return false
	}
	host, defaultHost := h.HostAt(local, r.TLS.ServerName)
	if host == nil {
		return false
	}
	if host.RejectHandshake {
		e.Add(nil, "tls", host.Pos, "rejects the handshake")
		return true
	}
	for _, at := range []*conf.Host{host, defaultHost} {
		if names := certificateNames(at); names != "" {
			e.Add(nil, "tls", at.Pos, "%s", names)
			return false
		}
	}
	return false
}

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
