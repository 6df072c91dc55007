package pcre

import (
	"math/bits"
	"slices"
)

// maxPrefix bounds the texts of prefixes. Longer ones would hardly exclude more.
const maxPrefix = 8

// lower returns an ASCII letter in lower case, and other bytes as they are.
func lower(c byte) byte {
	if c-'A' < 26 {
		return c | 0x20
	}
	return c
}

// literal returns the only byte of a set, or the lower case of its only letter.
func (s *set) literal() (byte, bool) {
	count, c := 0, 0
	for i, w := range s {
		if w != 0 && count == 0 {
			c = 64*i + bits.TrailingZeros64(w)
		}
		count += bits.OnesCount64(w)
	}
	b := lower(byte(c))
	return b, count == 1 || count == 2 && isLetter(b) && s.has(b) && s.has(b-0x20)
}

// required returns sets of texts in lower case. A match contains one text of each set.
func (n *node) required() [][]string {
	var r required
	r.add(n)
	r.end()
	return r.sets
}

// required finds required texts.
type required struct {
	run  []byte // the text that continues
	sets [][]string
}

func (r *required) add(n *node) {
	switch n.op {
	case opSet:
		if c, ok := n.set.literal(); ok {
			r.run = append(r.run, c)
		} else {
			r.end()
		}
	case opCat:
		for _, s := range n.subs {
			r.add(s)
		}
	case opCapture, opAtomic:
		r.add(n.subs[0])
	case opRepeat:
		if n.min > 0 {
			r.add(n.subs[0])
		}
		r.end()
	case opAlt:
		r.end()
		var all []string
		for _, s := range n.subs {
			sets := s.required()
			if len(sets) == 0 {
				return
			}
			all = append(all, slices.MaxFunc(sets, func(a, b []string) int { return shortest(a) - shortest(b) })...)
		}
		r.sets = append(r.sets, all)
	case opRef:
		r.end()
	default: // a position
	}
}

// end ends the text that continues.
func (r *required) end() {
	if len(r.run) >= gram {
		r.sets = append(r.sets, []string{string(r.run)})
	}
	r.run = r.run[:0]
}

func shortest(texts []string) int {
	return len(slices.MinFunc(texts, func(a, b string) int { return len(a) - len(b) }))
}

// prefixes returns texts, in lower case, such that each match begins with one of them. They are
// whole if the node matches nothing else.
func (n *node) prefixes() (texts []string, whole bool) {
	switch n.op {
	case opSet:
		if c, ok := n.set.literal(); ok {
			return []string{string([]byte{c})}, true
		}
		return []string{""}, false
	case opCat:
		texts, whole = []string{""}, true
		for _, s := range n.subs {
			if !whole || len(texts[0]) >= maxPrefix {
				return texts, false
			}
			var more []string
			if more, whole = s.prefixes(); len(texts) > 1 && len(more) > 1 {
				return texts, false
			}
			texts = product(texts, more)
		}
		return texts, whole
	case opAlt:
		whole = true
		for _, s := range n.subs {
			more, isWhole := s.prefixes()
			texts, whole = append(texts, more...), whole && isWhole
		}
		return texts, whole
	case opCapture, opAtomic:
		return n.subs[0].prefixes()
	case opRepeat:
		if n.min > 0 {
			texts, _ = n.subs[0].prefixes()
			return texts, false
		}
		return []string{""}, false
	case opRef, opBack:
		return []string{""}, false
	}
	return []string{""}, true // a position
}

// product returns each of the first texts with each of the others appended.
func product(a, b []string) []string {
	out := make([]string, 0, len(a)*len(b))
	for _, x := range a {
		for _, y := range b {
			out = append(out, (x + y)[:min(len(x)+len(y), maxPrefix)])
		}
	}
	return out
}
