package pcre

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
)

// linear is an expression that package regexp matches.
type linear struct {
	re    *regexp.Regexp
	insts int // instructions of its program: the maximum steps per byte
}

// writer writes an expression in the syntax of package regexp.
type writer struct {
	text   strings.Builder
	groups int
}

// newLinear converts a tree, if package regexp gives it the same meaning; otherwise it returns nil.
// Bytes become runes.
func newLinear(n *node) *linear {
	var b writer
	if !write(&b, n) {
		return nil
	}
	return compileLinear(b.text.String())
}

func compileLinear(source string) *linear {
	re, err := regexp.Compile(source)
	if err != nil {
		return nil
	}
	parsed, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return nil
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil
	}
	return &linear{re, len(prog.Inst)}
}

// write writes a tree in the syntax of package regexp, and reports whether the meaning is the same.
// It writes "end or before a line end" as "end": the other matcher handles subjects that end with a
// line end.
func write(b *writer, n *node) bool {
	switch n.op {
	case opEmpty:
		b.text.WriteString("(?:)")
	case opSet:
		writeSet(b, n.set)
	case opCat:
		for _, s := range n.subs {
			if !write(b, s) {
				return false
			}
		}
		if len(n.subs) == 0 {
			b.text.WriteString("(?:)")
		}
	case opAlt:
		b.text.WriteString("(?:")
		for i, s := range n.subs {
			if i > 0 {
				b.text.WriteByte('|')
			}
			if !write(b, s) {
				return false
			}
		}
		b.text.WriteByte(')')
	case opRepeat:
		return writeRepeat(b, n)
	case opCapture:
		if b.groups++; b.groups != n.n { // some groups share a number
			return false
		}
		b.text.WriteByte('(')
		ok := write(b, n.subs[0])
		b.text.WriteByte(')')
		return ok
	case opBegin:
		b.text.WriteString(`\A`)
	case opEnd, opEndOrLine:
		b.text.WriteString(`\z`)
	case opWord:
		b.text.WriteString(`\b`)
	case opNoWord:
		b.text.WriteString(`\B`)
	default:
		return false
	}
	return true
}

// writeRepeat writes a repetition. If an iteration may match the empty string, package regexp sets
// different captures.
func writeRepeat(b *writer, n *node) bool {
	body := n.subs[0]
	if body.nullable() && body.captures() || n.min > 1000 || n.max > 1000 {
		return false
	}
	b.text.WriteString("(?:")
	if !write(b, body) {
		return false
	}
	b.text.WriteByte(')')
	switch {
	case n.min == 0 && n.max < 0:
		b.text.WriteByte('*')
	case n.min == 1 && n.max < 0:
		b.text.WriteByte('+')
	case n.min == 0 && n.max == 1:
		b.text.WriteByte('?')
	case n.max < 0:
		fmt.Fprintf(&b.text, "{%d,}", n.min)
	default:
		fmt.Fprintf(&b.text, "{%d,%d}", n.min, n.max)
	}
	if n.lazy {
		b.text.WriteByte('?')
	}
	return true
}

func writeSet(b *writer, s set) {
	if s == (set{}) {
		b.text.WriteString(`[^\x{0}-\x{10ffff}]`)
		return
	}
	b.text.WriteByte('[')
	s.ranges(func(from, to byte) {
		fmt.Fprintf(&b.text, `\x{%x}-\x{%x}`, from, to)
	})
	b.text.WriteByte(']')
}

// runes converts each byte to the rune with the same number.
func runes(s string) string {
	var b strings.Builder
	b.Grow(len(s) + len(s)/2)
	for i := range len(s) {
		b.WriteRune(rune(s[i]))
	}
	return b.String()
}

// toBytes converts offsets in the string of runes to offsets in the subject.
func toBytes(s string, bounds []int) {
	at := make([]int, 0, 2*len(s)+1) // of each byte of the runes
	for i := range len(s) {
		if at = append(at, i); s[i] >= 0x80 {
			at = append(at, i)
		}
	}
	at = append(at, len(s))
	for i, n := range bounds {
		if n >= 0 {
			bounds[i] = at[n]
		}
	}
}
