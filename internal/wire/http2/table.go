package http2

import (
	"github.com/tarehq/tare/internal/wire/http1"
)

// entryOverhead is what an entry of the dynamic table counts besides its name and value (RFC 7541,
// 4.1), and a field of a list (RFC 9113, 10.5.1).
const entryOverhead = 32

type entry struct {
	start     uint64 // of the name, in bytes inserted since the table exists; the value follows
	nameSize  uint32
	valueSize uint32
	info      nameInfo
	isValue   bool // the value is valid
}

func (e entry) size() int { return int(e.nameSize) + int(e.valueSize) + entryOverhead }

// dynamicTable is a dynamic table (RFC 7541, 2.3.2). Entries form a ring, and their text lies in
// one buffer, the oldest first, so that an insertion allocates nothing.
type dynamicTable struct {
	text    []byte // the names and values from base on; those of evicted entries come first
	base    uint64
	ring    []entry // its length is a power of two
	oldest  int     // index in ring
	count   int
	size    int // as RFC 7541 counts it
	maxSize int
}

// at returns an entry; 0 is the newest.
func (t *dynamicTable) at(i int) *entry {
	return &t.ring[(t.oldest+t.count-1-i)&(len(t.ring)-1)]
}

func (t *dynamicTable) name(e *entry) []byte {
	at := e.start - t.base
	return t.text[at : at+uint64(e.nameSize)]
}

func (t *dynamicTable) value(e *entry) []byte {
	at := e.start - t.base + uint64(e.nameSize)
	return t.text[at : at+uint64(e.valueSize)]
}

func (t *dynamicTable) setMaxSize(n int) {
	t.maxSize = n
	t.evict(n)
}

func (t *dynamicTable) evict(n int) {
	for t.size > n {
		t.size -= t.ring[t.oldest].size()
		t.oldest = (t.oldest + 1) & (len(t.ring) - 1)
		t.count--
	}
}

// insert adds an entry. An entry larger than the table empties it (RFC 7541, 4.4). name and value
// must not be part of the table.
func (t *dynamicTable) insert(name, value []byte, info nameInfo, isValue bool) {
	e := entry{nameSize: uint32(len(name)), valueSize: uint32(len(value)), info: info, isValue: isValue}
	if e.size() > t.maxSize {
		t.evict(0)
		return
	}
	t.evict(t.maxSize - e.size())
	t.makeRoom(len(name) + len(value))
	e.start = t.base + uint64(len(t.text))
	t.text = append(append(t.text, name...), value...)
	t.ring[(t.oldest+t.count)&(len(t.ring)-1)] = e
	t.count++
	t.size += e.size()
}

// The first memory of a table. It is small, because an idle connection keeps its table, and
// programs send few fields.
const (
	leastRing = 4
	leastText = 128
)

// makeRoom makes room for one more entry with n bytes of text. The text of evicted entries is
// dropped when the buffer is full. Each byte is then moved at most once for each byte inserted,
// because the buffer is at least twice as large as what remains.
func (t *dynamicTable) makeRoom(n int) {
	if t.count == len(t.ring) {
		ring := make([]entry, max(leastRing, 2*len(t.ring)))
		for i := range t.count {
			ring[i] = t.ring[(t.oldest+i)&(len(t.ring)-1)]
		}
		t.ring, t.oldest = ring, 0
	}
	if len(t.text)+n <= cap(t.text) {
		return
	}
	live := len(t.text)
	if t.count > 0 {
		live = int(t.ring[t.oldest].start - t.base)
	}
	rest := t.text[live:]
	t.base += uint64(live)
	room := t.text[:0]
	if need := 2 * (len(rest) + n); need > cap(t.text) {
		room = make([]byte, 0, max(leastText, need))
	}
	t.text = append(room, rest...)
}

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

// staticNames holds the properties of the names of staticTable. It is never modified.
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
