package http1

const (
	// wholeText is up to where the parts of a text are parts of one string.
	wholeText = 2 << 10
	// pieceText is how large the pieces of a larger one are, and ownText from where on a part has a string of its own.
	pieceText = 1 << 10
	ownText   = 256
)

// Text makes strings of the parts of a head, a trailer section or the like. A part of a string keeps all of it in memory: those
// of a large text are parts of small pieces, so that a program that keeps a few bytes does not keep all that came with them.
// Parts that follow each other share pieces.
type Text struct {
	bytes []byte
	piece string // a string of bytes[at:]
	at    uint32
}

// TextOf returns the Text of b, which must not change while the Text is used. The strings outlive that.
func TextOf(b []byte) Text {
	t := Text{bytes: b}
	if len(b) <= wholeText {
		t.piece = string(b)
	}
	return t
}

// TextIn returns the Text of a string, all parts of which are parts of it.
func TextIn(s string) Text { return Text{piece: s} }

// IsLarge reports whether n bytes are too many to be kept for the sake of one part of them.
func IsLarge(n int) bool { return n > wholeText }

// IsWhole reports whether all parts are parts of one string.
func (t *Text) IsWhole() bool { return len(t.bytes) <= wholeText }

// Of returns a part.
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
