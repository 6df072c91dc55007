package roundtrip

// ConcernsConnection reports whether a field, by its canonical name, means nothing beyond its connection: RFC 9110, 7.6.1. What names
// proxies and their passwords is between two of them: 11.7.
func ConcernsConnection(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// PlainName reports whether a name has letters, digits and hyphens only. No other name becomes the same variable of an application then: that
// takes '_' for a hyphen, and PHP a dot as well. nginx drops names that are not plain.
func PlainName(name string) bool {
	for i := range len(name) {
		if c := name[i]; c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}
