package load

// protocol returns what speaks a version of HTTP.
func (v Version) protocol() protocol {
	switch v {
	case HTTP10:
		return overHTTP{0}
	case HTTP2:
		return overHTTP2{}
	}
	return overHTTP{1}
}

// names are a version's in TLS's negotiation (RFC 7301).
func (v Version) names() []string {
	if v == HTTP2 {
		return []string{"h2"}
	}
	return []string{"http/1.1"}
}
