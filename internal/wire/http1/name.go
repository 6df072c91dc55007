package http1

// Name is a field name of a fixed table, so that recognizing it allocates no string. NameUnknown
// stands for all others.
type Name uint8

// The names up to NameUpgrade are restricted: they affect framing, routing or the connection, and a
// trailer section must not have them.
const (
	NameUnknown Name = iota
	NameConnection
	NameContentLength
	NameExpect
	NameHost
	NameTrailer
	NameTransferEncoding
	NameUpgrade
	NameContentType
	NameContentEncoding
	NamePragma
	NameDate
	NameKeepAlive
	NameProxyAuthenticate
	NameProxyAuthorization
	NameTE
)

// names holds canonical spellings as in net/textproto ("Etag", "Te"). It is never modified. The
// first entries correspond to the constants above.
var names = [...]string{
	"", "Connection", "Content-Length", "Expect", "Host", "Trailer", "Transfer-Encoding", "Upgrade",

	"Content-Type", "Content-Encoding", "Pragma", "Date", "Keep-Alive", "Proxy-Authenticate",
	"Proxy-Authorization", "Te",
	"Accept", "Accept-Charset", "Accept-Encoding", "Accept-Language",
	"Accept-Ranges",
	"Access-Control-Allow-Origin", "Access-Control-Request-Headers", "Access-Control-Request-Method",
	"Age", "Allow", "Alt-Svc", "Authorization", "Cache-Control", "Cdn-Loop", "Content-Disposition",
	"Content-Language", "Content-Location", "Content-Range", "Content-Security-Policy",
	"Cookie", "Dnt", "Etag", "Expires", "Forwarded", "From",
	"If-Match", "If-Modified-Since", "If-None-Match", "If-Range",
	"If-Unmodified-Since", "Last-Modified", "Link", "Location", "Max-Forwards", "Origin",
	"Priority", "Range", "Referer", "Retry-After",
	"Sec-Ch-Ua", "Sec-Ch-Ua-Mobile", "Sec-Ch-Ua-Platform", "Sec-Fetch-Dest", "Sec-Fetch-Mode",
	"Sec-Fetch-Site", "Sec-Fetch-User", "Sec-Gpc", "Sec-Websocket-Extensions", "Sec-Websocket-Key",
	"Sec-Websocket-Protocol", "Sec-Websocket-Version", "Server", "Set-Cookie", "Strict-Transport-Security",
	"Traceparent", "Tracestate", "Upgrade-Insecure-Requests", "User-Agent", "Vary", "Via",
	"Www-Authenticate", "X-Content-Type-Options", "X-Correlation-Id", "X-Csrf-Token", "X-Forwarded-For",
	"X-Forwarded-Host", "X-Forwarded-Port", "X-Forwarded-Proto", "X-Frame-Options", "X-Powered-By",
	"X-Real-Ip", "X-Request-Id", "X-Requested-With",
}

func (n Name) isRestricted() bool { return NameUnknown < n && n <= NameUpgrade }

// NameSet is a set of names. The zero value is empty.
type NameSet [(len(names) + 63) / 64]uint64

// Add adds a name and reports whether it is new.
func (s *NameSet) Add(n Name) bool {
	word, bit := &s[n/64], uint64(1)<<(n%64)
	fresh := *word&bit == 0
	*word |= bit
	return fresh
}

// String returns the canonical spelling, or "" for NameUnknown.
func (n Name) String() string { return names[n] }

// A name is found by one probe of a table. Its index is computed from the name's length and three
// of its letters. The whole name is compared afterwards. Looking up the 15 names of a browser's
// head takes 215 ns, and 473 with a map (BenchmarkLookupName). If a new name collides,
// TestNamesDoNotCollide finds new factors.
const (
	nameSlots   = 512
	lengthScale = 39
	firstScale  = 226
	middleScale = 32
	secondScale = 85 // of the second to last letter
)

// nameTable is never modified.
var nameTable = makeNameTable()

func makeNameTable() (t [nameSlots]Name) {
	for i, name := range names {
		if name != "" {
			t[nameSlot([]byte(name))] = Name(i)
		}
	}
	return t
}

// nameSlot returns the index of a name, which has at least two bytes.
func nameSlot(b []byte) int {
	return slotBy(b, lengthScale, firstScale, middleScale, secondScale)
}

// slotBy is nameSlot with variable factors, for the search for new ones.
func slotBy(b []byte, length, first, middle, second int) int {
	return (len(b)*length + int(b[0]|0x20)*first + int(b[len(b)/2]|0x20)*middle +
		int(b[len(b)-2]|0x20)*second) % nameSlots
}

// LookupName returns the Name of a field name in any case. b must be a token.
func LookupName(b []byte) Name {
	if len(b) < 2 {
		return NameUnknown
	}
	n := nameTable[nameSlot(b)]
	s := names[n]
	if string(b) == s {
		return n // the spelling of most clients
	}
	if len(s) != len(b) {
		return NameUnknown
	}
	// The table contains letters, digits and hyphens. No other byte of a token becomes one of
	// those when bit 0x20 is set.
	for i, c := range b {
		if c|0x20 != s[i]|0x20 {
			return NameUnknown
		}
	}
	return n
}

// LookupVariable returns the Name of a field name in CGI's form after HTTP_: in upper case, with
// '_' for '-' (RFC 3875, 4.1.18).
func LookupVariable(b []byte) Name {
	var name [maxName]byte
	if len(b) > len(name) {
		return NameUnknown
	}
	for i, c := range b {
		switch {
		case c == '_':
			c = '-'
		case (c < 'A' || c > 'Z') && (c < '0' || c > '9'):
			return NameUnknown
		}
		name[i] = c
	}
	return LookupName(name[:len(b)])
}

const maxName = 32 // length of the longest name of the table
