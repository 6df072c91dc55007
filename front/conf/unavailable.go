package conf

import "strings"

// Unavailable returns why a variable of nginx is not available here, or "". The name is in lower
// case.
func Unavailable(name string) string {
	switch name {
	case "connection", "tcpinfo_rtt", "tcpinfo_rttvar", "tcpinfo_snd_cwnd", "tcpinfo_rcv_space":
		return "the handler sees requests, not connections"
	case "request_body_file":
		return "a body's file has no name"
	case "ssl_ciphers", "ssl_curves", "ssl_session_id":
		return "package tls does not report it"
	case "upstream_bytes_received", "upstream_bytes_sent":
		return "bytes of upstream connections are not counted"
	case "slice_range":
		return "slice is not supported"
	case "uid_got", "uid_set", "uid_reset":
		return "userid is not supported: set cookies in the application"
	}
	for _, of := range []struct{ prefix, why string }{
		{"proxy_protocol_tlv_", "TLVs of the PROXY protocol are not kept"},
		{"sent_trailer_", "trailer sections are not kept"},
		{"upstream_trailer_", "trailer sections are not kept"},
	} {
		if strings.HasPrefix(name, of.prefix) {
			return of.why
		}
	}
	return ""
}
