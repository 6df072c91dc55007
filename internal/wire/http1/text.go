package http1

const (
	// wholeText is the size up to which all parts of a text share one string.
	wholeText = 2 << 10
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
