package http2

import "github.com/tarehq/tare/internal/wire/http1"

// staticField is an entry of the static table.
type staticField struct{ name, value string }

// staticTable is RFC 7541, appendix A. Its first entry has index 1. It is never modified.
var staticTable = [...]staticField{
	{":authority", ""}, {":method", "GET"}, {":method", "POST"}, {":path", "/"}, {":path", "/index.html"},
	{":scheme", "http"}, {":scheme", "https"}, {":status", "200"}, {":status", "204"}, {":status", "206"},
	{":status", "304"}, {":status", "400"}, {":status", "404"}, {":status", "500"}, {"accept-charset", ""},
	{"accept-encoding", "gzip, deflate"}, {"accept-language", ""}, {"accept-ranges", ""}, {"accept", ""},
	{"access-control-allow-origin", ""}, {"age", ""}, {"allow", ""}, {"authorization", ""}, {"cache-control", ""},
	{"content-disposition", ""}, {"content-encoding", ""}, {"content-language", ""}, {"content-length", ""},
	{"content-location", ""}, {"content-range", ""}, {"content-type", ""}, {"cookie", ""}, {"date", ""}, {"etag", ""},
	{"expect", ""}, {"expires", ""}, {"from", ""}, {"host", ""}, {"if-match", ""}, {"if-modified-since", ""},
	{"if-none-match", ""}, {"if-range", ""}, {"if-unmodified-since", ""}, {"last-modified", ""}, {"link", ""},
	{"location", ""}, {"max-forwards", ""}, {"proxy-authenticate", ""}, {"proxy-authorization", ""}, {"range", ""},
	{"referer", ""}, {"refresh", ""}, {"retry-after", ""}, {"server", ""}, {"set-cookie", ""},
	{"strict-transport-security", ""}, {"transfer-encoding", ""}, {"user-agent", ""}, {"vary", ""}, {"via", ""},
	{"www-authenticate", ""},
}

// staticNames holds what is known of the names of staticTable. It is never modified.
var staticNames = makeStaticNames()

func makeStaticNames() (all [len(staticTable)]nameInfo) {
	for i, f := range staticTable {
		all[i] = infoOf([]byte(f.name))
	}
	return all
}

// staticIndexes holds the index of the first entry of the static table with a name; 0 if there is
// none. It is never modified.
var staticIndexes = makeStaticIndexes()

func makeStaticIndexes() (all [256]uint8) {
	for i, f := range staticTable {
		known := http1.LookupName([]byte(f.name))
		if known != http1.NameUnknown && all[known] == 0 {
			all[known] = uint8(i + 1)
		}
	}
	return all
}
