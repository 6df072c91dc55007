package http1

const (
	wholeText = 2 << 10 // size up to which all parts of a text share one string
	// pieceText is the size of the shared strings of a larger text. ownText is the size from
	// which a part has a string of its own.
	pieceText = 1 << 10
	ownText   = 256
)

// Text makes strings from parts of a head, a trailer section or other input. A part of a string
// keeps the whole string in memory. Parts of a large text therefore share small pieces, so that a
// program that keeps a few bytes does not keep all of the text. Adjacent parts share pieces.
type Text struct {
	bytes []byte
	piece string // a string of bytes[at:]
	at    uint32
}

// TextOf returns the Text of b, which must not change while the Text is used. The strings stay
// valid afterwards.
func TextOf(b []byte) Text {
	t := Text{bytes: b}
	if len(b) <= wholeText {
		t.piece = string(b)
	}
	return t
}

// TextIn returns the Text of s. All parts are parts of s.
func TextIn(s string) Text { return Text{piece: s} }

// IsLarge reports whether n bytes are too many to keep for one part of them.
func IsLarge(n int) bool { return n > wholeText }

// IsWhole reports whether all parts share one string.
func (t *Text) IsWhole() bool { return len(t.bytes) <= wholeText }

// Of returns a part as a string.
func (t *Text) Of(s Span) string {
	if s.Start >= t.at && int64(s.End)-int64(t.at) <= int64(len(t.piece)) {
		return t.piece[s.Start-t.at : s.End-t.at]
	}
	if s.End-s.Start >= ownText {
		return string(t.bytes[s.Start:s.End])
	}
	t.at = s.Start
	t.piece = string(t.bytes[t.at:min(int(t.at)+pieceText, len(t.bytes))])
	return t.piece[:s.End-s.Start]
}

// Collector collects field lines as net/http's Header: a map from canonical names to values.
type Collector struct {
	Fields map[string][]string

	// IsRequest makes AddFields skip Host, which net/http keeps outside of a request's Header.
	IsRequest bool

	values []string // backs the slices of Fields
	seen   NameSet  // saves most names a lookup in the map
}

// Collect returns a Collector for about n values. They are stored in room if that is large enough.
// fields is an empty map to be filled; nil makes one.
func Collect(fields map[string][]string, n int, room []string) Collector {
	n = max(0, n)
	if n > cap(room) {
		room = make([]string, 0, n)
	}
	if fields == nil {
		fields = make(map[string][]string, n)
	}
	return Collector{Fields: fields, values: room[:0]}
}

// Add adds a field line. name is the canonical spelling of known, unless known is NameUnknown.
func (c *Collector) Add(known Name, name, value string) {
	if known == NameUnknown || !c.seen.Add(known) {
		if before, ok := c.Fields[name]; ok {
			c.Fields[name] = append(before, value)
			return
		}
	}
	c.values = append(c.values, value)
	last := len(c.values)
	// capacity 1: an append to it must not change another
	c.Fields[name] = c.values[last-1 : last : last]
}

// AddFields adds field lines, except those of Transfer-Encoding, which net/http keeps outside of
// the Header. text is the Text that they refer to. canonical spells names that Name lacks.
func (c *Collector) AddFields(lines []Field, text *Text, canonical func(string) string) {
	for _, f := range lines {
		name := f.Known.String()
		switch {
		case f.Known == NameUnknown:
			name = canonical(text.Of(f.Name))
		case f.Known == NameTransferEncoding, f.Known == NameHost && c.IsRequest:
			continue
		}
		c.Add(f.Known, name, text.Of(f.Value))
	}
}
