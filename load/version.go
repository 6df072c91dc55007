package load

func (v Version) protocol() protocol {
	switch v {
	case HTTP10:
		return httpProtocol{0}
	case HTTP2:
		return http2Protocol{}
	}
	return httpProtocol{1}
}

func (v Version) alpn() []string {
	if v == HTTP2 {
		return []string{"h2"}
	}
	return []string{"http/1.1"}
}
