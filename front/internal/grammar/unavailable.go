package grammar

import "strings"

// Missing are variables that are not available, and why: one, or all with a prefix that ends in an
// underscore.
type Missing struct{ Name, Why string }

// Has reports whether the variables include one.
func (m Missing) Has(name string) bool {
	return name == m.Name || strings.HasSuffix(m.Name, "_") && strings.HasPrefix(name, m.Name)
}

// Unavailable returns why a variable of nginx is not available here, or "". The name is in lower
// case.
func Unavailable(name string) string {
	const (
		conns = "the handler sees requests, not connections"
		tls   = "package tls does not report it"

		ssi     = "server-side includes are not supported"
		browser = "browsers are not told apart"
	)
	for _, v := range []Missing{
		{"tcpinfo_rtt", conns}, {"tcpinfo_rttvar", conns},
		{"tcpinfo_snd_cwnd", conns}, {"tcpinfo_rcv_space", conns},
		{"ssl_ciphers", tls}, {"ssl_curves", tls}, {"ssl_session_id", tls},
		{"proxy_protocol_tlv_", "TLVs of the PROXY protocol are not kept"},
		{"upstream_trailer_", "trailer sections are not kept"},
		{"date_gmt", ssi}, {"date_local", ssi},
		{"modern_browser", browser}, {"ancient_browser", browser}, {"msie", browser},
	} {
		if v.Has(name) {
			return v.Why
		}
	}
	return ""
}
