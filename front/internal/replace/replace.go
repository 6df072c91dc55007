// Package replace replaces strings in a text that arrives in pieces, without regard to the case of
// ASCII letters.
package replace

import (
	"io"
	"math"
)

// Matcher searches a text for strings. It does not change.
type Matcher struct {
	strings  [][]byte // in lower case, not empty
	shortest int
	longest  int
	// shift is how far the search may skip, by the last byte of a window of length shortest:
	// Horspool's algorithm.
	shift [256]uint8
}

// Results of find that are not an index in strings.
const (
	noMatch      = -1 // no string was found
	partialMatch = -2 // the text ends within a possible match
)

// NewMatcher makes a Matcher of strings that are not empty.
func NewMatcher(from []string) *Matcher {
	n := &Matcher{strings: make([][]byte, len(from)), shortest: math.MaxInt}
	for i, s := range from {
		n.strings[i] = make([]byte, len(s))
		for j := range n.strings[i] {
			n.strings[i][j] = lower(s[j])
		}
		n.shortest, n.longest = min(n.shortest, len(s)), max(n.longest, len(s))
	}
	for c := range n.shift {
		n.shift[c] = uint8(min(n.shortest, math.MaxUint8))
	}
	for _, target := range n.strings {
		for j, c := range target[:n.shortest] {
			far := uint8(min(n.shortest-1-j, math.MaxUint8))
			n.shift[c] = min(n.shift[c], far)
			n.shift[upper(c)] = n.shift[c]
		}
	}
	return n
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		c += 'a' - 'A'
	}
	return c
}

func upper(c byte) byte {
	if 'a' <= c && c <= 'z' {
		c -= 'a' - 'A'
	}
	return c
}

// find returns where the first string in text[from:] begins, and its index. It skips the strings in
// done. If none is found, start is the end of text.
func (n *Matcher) find(text []byte, from int, done []bool) (start, which int) {
	for start = from; start < len(text); start++ {
		if last := start + n.shortest - 1; last < len(text) && n.shift[text[last]] > 0 {
			start += int(n.shift[text[last]]) - 1
			continue
		}
		if which = n.matchAt(text[start:], done); which != noMatch {
			return start, which
		}
	}
	return len(text), noMatch
}

// matchAt returns the index of the string that text begins with.
func (n *Matcher) matchAt(text []byte, done []bool) int {
	for i, target := range n.strings {
		if done[i] {
			continue
		}
		j, end := 0, min(len(target), len(text))
		for j < end && lower(text[j]) == target[j] {
			j++
		}
		switch {
		case j == len(target):
			return i
		case j == len(text):
			return partialMatch
		}
	}
	return noMatch
}

// Writer replaces strings. It keeps a possible beginning of a string until the next piece, and
// writes everything else at once.
type Writer struct {
	matcher      *Matcher
	replacements [][]byte // by index in strings
	once         bool     // each string is replaced once
	to           io.Writer

	done      []bool // strings that were replaced, if once
	remaining int    // number of strings that are not done
	carry     []byte // the end of the text so far, in which a string may begin
}

// NewWriter makes a Writer that replaces the strings of n by replacements, each once or always.
func NewWriter(n *Matcher, replacements [][]byte, once bool, to io.Writer) *Writer {
	return &Writer{matcher: n, replacements: replacements, once: once, to: to,
		done: make([]bool, len(replacements)), remaining: len(replacements)}
}

// Write processes a piece.
func (r *Writer) Write(p []byte) (int, error) {
	rest := p
	if k := len(r.carry); k > 0 {
		// a string that begins in carry ends in here
		joint := append(r.carry, p[:min(len(p), r.matcher.longest-1)]...)
		at, err := r.replace(joint, k)
		if err != nil {
			return 0, err
		}
		if at < k { // joint has all of p, and is too short to decide
			r.carry = append(joint[:0], joint[at:]...)
			return len(p), nil
		}
		r.carry, rest = joint[:0], p[at-k:]
	}
	at, err := r.replace(rest, len(rest))
	if err != nil {
		return 0, err
	}
	r.carry = append(r.carry, rest[at:]...)
	return len(p), nil
}

// replace writes a text up to limit, with the strings that begin before it replaced. It returns
// where to continue: after limit if the last string ends there, before it at a partial match.
func (r *Writer) replace(text []byte, limit int) (at int, err error) {
	for at < limit {
		start, which := len(text), noMatch
		if r.remaining > 0 {
			start, which = r.matcher.find(text, at, r.done)
		}
		if err := r.send(text[at:min(start, limit)]); err != nil {
			return at, err
		}
		switch {
		case start >= limit:
			return limit, nil
		case which == partialMatch:
			return start, nil
		}
		if err := r.send(r.replacements[which]); err != nil {
			return start, err
		}
		if r.once {
			r.done[which] = true
			r.remaining--
		}
		at = start + len(r.matcher.strings[which])
	}
	return at, nil
}

func (r *Writer) send(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	_, err := r.to.Write(p)
	return err
}

// Close ends the text. As in nginx the carry is written as it is, even if it contains a shorter
// string than the one that it may begin.
func (r *Writer) Close() error {
	err := r.send(r.carry)
	r.carry = nil
	return err
}
