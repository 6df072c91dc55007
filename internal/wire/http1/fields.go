package http1

// ConcernsConnection reports whether a field, by its canonical name, concerns only the connection
// (RFC 9110, 7.6.1). That includes the fields for authentication between two proxies (11.7).
func ConcernsConnection(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
		"Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// ConcernsConnection is ConcernsConnection for a field of a head.
func (f Field) ConcernsConnection(head []byte) bool {
	switch f.Known {
	case NameUnknown:
		return equalFold(f.Name.In(head), "proxy-connection")
	case NameConnection, NameKeepAlive, NameProxyAuthenticate, NameProxyAuthorization, NameTE, NameTrailer,
		NameTransferEncoding, NameUpgrade:
		return true
	}
	return false
}

// PlainName reports whether a name consists of letters, digits and hyphens. No two plain names
// become the same CGI variable: applications replace '-' by '_', and PHP replaces a dot as well.
// nginx drops fields whose names are not plain.
func PlainName(name string) bool {
	for i := range len(name) {
		if c := name[i]; c != '-' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}
