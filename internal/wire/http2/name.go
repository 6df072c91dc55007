package http2

import "github.com/tarehq/tare/internal/wire/http1"

// nameKind is how a field of a block is treated.
type nameKind uint8

const (
	kindField nameKind = iota // an ordinary field
	kindMethod
	kindScheme
	kindAuthority
	kindPath
	kindProtocol // RFC 8441
	kindStatus

	kindBadPseudo  // an unknown pseudo-header field
	kindBadName    // upper case, or not a token
	kindConnection // concerns one connection, which HTTP/2 forbids (RFC 9113, 8.2.2)

	kindTE
	kindCookie
	kindContentLength
	kindHost
)

func (k nameKind) isPseudo() bool { return kindMethod <= k && k <= kindStatus }

func (k nameKind) isKept() bool { return k == kindField || k >= kindTE }

type nameInfo struct {
	kind  nameKind
	known http1.Name
}

func infoOf(name []byte) nameInfo {
	if len(name) > 0 && name[0] == ':' {
		switch string(name) {
		case ":method":
			return nameInfo{kind: kindMethod}
		case ":scheme":
			return nameInfo{kind: kindScheme}
		case ":authority":
			return nameInfo{kind: kindAuthority}
		case ":path":
			return nameInfo{kind: kindPath}
		case ":protocol":
			return nameInfo{kind: kindProtocol}
		case ":status":
			return nameInfo{kind: kindStatus}
		}
		return nameInfo{kind: kindBadPseudo}
	}
	if !http1.ValidLowerToken(name) {
		return nameInfo{kind: kindBadName}
	}
	info := nameInfo{known: http1.LookupName(name)}
	switch string(name) {
	case "te":
		info.kind = kindTE
	case "cookie":
		info.kind = kindCookie
	case "content-length":
		info.kind = kindContentLength
	case "host":
		info.kind = kindHost
	default:
		if ConcernsConnection(name) {
			info.kind = kindConnection
		}
	}
	return info
}

// ConcernsConnection reports whether HTTP/2 and HTTP/3 forbid a field, because it concerns one
// connection (RFC 9113, 8.2.2). Case is ignored.
func ConcernsConnection[T string | []byte](name T) bool {
	switch len(name) { // first, because it is called for each field of a response
	case len("upgrade"):
		return http1.EqualFold(name, "upgrade")
	case len("connection"): // and of keep-alive
		return http1.EqualFold(name, "connection") || http1.EqualFold(name, "keep-alive")
	case len("proxy-connection"):
		return http1.EqualFold(name, "proxy-connection")
	case len("transfer-encoding"):
		return http1.EqualFold(name, "transfer-encoding")
	}
	return false
}
