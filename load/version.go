package load

// protocol returns the protocol that implements a version of HTTP.
func (v Version) protocol() protocol {
	switch v {
	case HTTP10:
		return httpProtocol{0}
	case HTTP2:
		return http2Protocol{}
	}
	return httpProtocol{1}
}

// alpn returns the version's protocol names for ALPN (RFC 7301).
func (v Version) alpn() []string {
	if v == HTTP2 {
		return []string{"h2"}
	}
	return []string{"http/1.1"}
}
