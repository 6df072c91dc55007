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
		return EqualFold(f.Name.In(head), "proxy-connection")
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

// TranslatePragma adds the Cache-Control field that a Pragma field stands for, as net/http does for
// HTTP/1.
func TranslatePragma(header map[string][]string) {
	if pragma, ok := header["Pragma"]; ok && pragma[0] == "no-cache" {
		if _, ok := header["Cache-Control"]; !ok {
			header["Cache-Control"] = []string{"no-cache"}
		}
	}
}

// HasToken reports whether list fields contain a token. Case is ignored.
func HasToken(lists []string, token string) bool {
	for _, list := range lists {
		for element := range Elements(list) {
			if EqualFold(element, token) {
				return true
			}
		}
	}
	return false
}

// Elements yields the non-empty elements of a comma-separated list, without the space around them.
// It removes line ends, too: a list that a program has set may contain them.
func Elements[T string | []byte](list T) func(yield func(T) bool) {
	return func(yield func(T) bool) {
		for next := 0; next < len(list); {
			start, end := next, next
			for end < len(list) && list[end] != ',' {
				end++
			}
			next = end + 1
			for start < end && isBlank(list[start]) {
				start++
			}
			for start < end && isBlank(list[end-1]) {
				end--
			}
			if start < end && !yield(list[start:end]) {
				return
			}
		}
	}
}
