package front

import "strings"

// Unavailable says why one of nginx's variables is not to be had here, or nothing. The name is in lower case.
func Unavailable(name string) string {
	switch name {
	case "connection", "tcpinfo_rtt", "tcpinfo_rttvar", "tcpinfo_snd_cwnd", "tcpinfo_rcv_space":
		return "the handler does not see connections, only requests"
	case "request_body_file":
		return "a body that is in a file has none that others could open"
	case "ssl_ciphers", "ssl_curves", "ssl_session_id":
		return "the handshake is over, and nobody has noted it"
	case "upstream_bytes_received", "upstream_bytes_sent":
		return "what connections to upstreams carry is not counted"
	case "slice_range":
		return "answers are not cut"
	case "uid_got", "uid_set", "uid_reset":
		return "users are not counted; have the application do that"
	}
	for _, of := range []struct{ prefix, why string }{
		{"proxy_protocol_tlv_", "what the proxy says of itself is not kept"},
		{"sent_trailer_", "what follows bodies is not kept"},
		{"upstream_trailer_", "what follows bodies is not kept"},
	} {
		if strings.HasPrefix(name, of.prefix) {
			return of.why
		}
	}
	return ""
}
