package load

// protocol returns what speaks a version of HTTP.
func (v Version) protocol() protocol {
	switch v {
	case HTTP10:
		return httpProtocol{0}
	case HTTP2:
		return http2Protocol{}
	}
	return httpProtocol{1}
}

// names are a version's in TLS's negotiation (RFC 7301).
func (v Version) alpn() []string {
	if v == HTTP2 {
		return []string{"h2"}
	}
	return []string{"http/1.1"}
}
