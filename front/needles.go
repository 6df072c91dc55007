package front

import (
	"io"
	"math"
)

// needles are strings that a text is searched for, without regard to the case of ASCII letters. They are only read.
type matcher struct {
	strings  [][]byte // in lower case; none is empty
	shortest int
	longest  int
	// shift is how far the search may move on if the last byte of a window as long as the shortest is that one: Horspool's way.
	shift [256]uint8
}

// What find says instead of a string's index.
const (
	noMatch      = -1 // none is there
	partialMatch = -2 // one may begin, and the text ends
)

func newMatcher(from []string) *matcher {
	n := &matcher{strings: make([][]byte, len(from)), shortest: math.MaxInt}
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
	for _, needle := range n.strings {
		for j, c := range needle[:n.shortest] {
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

// find returns where in text, from a place on, the first string begins, and which it is. Those that are done are not looked for. If there is
// none, start is the text's end.
func (n *matcher) find(text []byte, from int, done []bool) (start, which int) {
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

// at returns which string a text begins with.
func (n *matcher) matchAt(text []byte, done []bool) int {
	for i, needle := range n.strings {
		if done[i] {
			continue
		}
		j, end := 0, min(len(needle), len(text))
		for j < end && lower(text[j]) == needle[j] {
			j++
		}
		switch {
		case j == len(needle):
			return i
		case j == len(text):
			return partialMatch
		}
	}
	return noMatch
}

// replacer replaces strings in a text that comes in pieces. What may be the beginning of one is kept until it is known; all
// else goes on at once.
type replacer struct {
	*matcher
	replacements [][]byte // in their places
	once         bool     // each is replaced once
	to           io.Writer

	done      []bool // those that have been replaced, if that is done once
	remaining int    // how many are still looked for
	carry     []byte // the end of the text so far, in which a string may begin
}

func newReplacer(n *matcher, replacements [][]byte, once bool, to io.Writer) *replacer {
	return &replacer{matcher: n, replacements: replacements, once: once, to: to, done: make([]bool, len(replacements)), remaining: len(replacements)}
}

// Write takes a piece.
func (r *replacer) Write(p []byte) (int, error) {
	rest := p
	if k := len(r.carry); k > 0 {
		joint := append(r.carry, p[:min(len(p), r.longest-1)]...) // what begins in kept ends in here
		at, err := r.replace(joint, k)
		if err != nil {
			return 0, err
		}
		if at < k { // all of p is there, and is too short to tell
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

// replace sends a text as far as limit, with those strings replaced that begin before it. It returns where it goes on: behind
// the limit if the last one has ended there, and before it where nobody can tell yet.
func (r *replacer) replace(text []byte, limit int) (at int, err error) {
	for at < limit {
		start, which := len(text), noMatch
		if r.remaining > 0 {
			start, which = r.find(text, at, r.done)
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
		at = start + len(r.strings[which])
	}
	return at, nil
}

func (r *replacer) send(p []byte) error {
	if len(p) == 0 {
		return nil
	}
	_, err := r.to.Write(p)
	return err
}

// close ends the text. As in nginx what was kept goes as it is, even if a shorter string is in it than the one that it began like.
func (r *replacer) close() error {
	err := r.send(r.carry)
	r.carry = nil
	return err
}
