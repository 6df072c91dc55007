package pcre

import (
	"slices"
	"unicode/utf8"
)

type op uint8

const (
	opEmpty     op = iota
	opSet          // a byte in the set
	opRunes        // a code point in the ranges
	opCat          // all subs in sequence
	opAlt          // the first of subs that matches
	opRepeat       // subs[0], min to max times
	opCapture      // subs[0], captured as group n
	opAtomic       // subs[0], without backtracking into it
	opLook         // lookahead for subs[0]
	opBehind       // lookbehind for subs[0]
	opBegin        // the beginning of the subject
	opEnd          // the end of the subject
	opEndOrLine    // the end of the subject, or before a line end there
	opLineBegin    // the beginning of a line
	opLineEnd      // the end of a line
	opWord         // a word boundary
	opNoWord       // no word boundary
	opRef          // the text of group n
	opKeep         // resets the beginning of the match
	opIfGroup      // subs[0] if group n has matched, else subs[1]
	opIfLook       // subs[1] if the assertion subs[0] holds, else subs[2]
	opBack         // moves n bytes back, whatever they are
)

type node struct {
	op       op
	not      bool // of a lookaround
	lazy     bool // of a repetition: as few as possible
	fold     bool // of a backreference
	n        int
	min, max int // of a repetition; max -1 means no limit
	set      set
	runes    []rune // pairs: ranges of code points in UTF-8, in order
	subs     []*node
}

// nullable reports whether the node may match the empty string.
func (n *node) nullable() bool {
	switch n.op {
	case opSet, opRunes:
		return false
	case opCat:
		return n.all((*node).nullable)
	case opAlt, opIfGroup:
		return slices.ContainsFunc(n.subs, (*node).nullable)
	case opIfLook:
		return n.subs[1].nullable() || n.subs[2].nullable()
	case opRepeat:
		return n.min == 0 || n.subs[0].nullable()
	case opCapture, opAtomic:
		return n.subs[0].nullable()
	}
	return true
}

func (n *node) all(has func(*node) bool) bool {
	return !slices.ContainsFunc(n.subs, func(s *node) bool { return !has(s) })
}

// has reports whether the node contains one of the operations.
func (n *node) has(ops ...op) bool {
	return slices.Contains(ops, n.op) || slices.ContainsFunc(n.subs, func(s *node) bool { return s.has(ops...) })
}

// refersTo reports whether the node depends on the text of a group.
func (n *node) refersTo(group int) bool {
	return (n.op == opRef || n.op == opIfGroup) && n.n == group ||
		slices.ContainsFunc(n.subs, func(s *node) bool { return s.refersTo(group) })
}

// length returns the number of bytes that the node matches; -1 if it varies.
func (n *node) length() int {
	switch n.op {
	case opSet:
		return 1
	case opCat:
		sum := 0
		for _, s := range n.subs {
			l := s.length()
			if l < 0 {
				return -1
			}
			sum += l
		}
		return sum
	case opAlt, opIfGroup:
		return sameLength(n.subs)
	case opIfLook:
		return sameLength(n.subs[1:])
	case opRepeat:
		l := n.subs[0].length()
		if l < 0 || n.min != n.max {
			return -1
		}
		return l * n.min
	case opCapture, opAtomic:
		return n.subs[0].length()
	case opRef, opRunes:
		return -1
	}
	return 0
}

func sameLength(subs []*node) int {
	l := subs[0].length()
	for _, s := range subs[1:] {
		if s.length() != l {
			return -1
		}
	}
	return l
}

// first adds the possible first bytes of a match, and reports whether a match must begin with one
// of them.
func (n *node) first(to *set) bool {
	switch n.op {
	case opSet:
		to.addSet(n.set)
		return true
	case opRunes:
		for i := 0; i < len(n.runes); i += 2 {
			from, end := n.runes[i], n.runes[i+1]
			if from < utf8.RuneSelf {
				to.addRange(byte(from), byte(min(end, utf8.RuneSelf-1)))
			}
			if end >= utf8.RuneSelf {
				to.addRange(0xc2, 0xf4) // all first bytes of a longer code point
			}
		}
		return true
	case opCat:
		for _, s := range n.subs {
			if s.first(to) {
				return true
			}
		}
		return false
	case opAlt:
		must := true
		for _, s := range n.subs {
			must = s.first(to) && must
		}
		return must
	case opRepeat:
		if n.max == 0 {
			return false
		}
		return n.subs[0].first(to) && n.min > 0
	case opCapture, opAtomic:
		return n.subs[0].first(to)
	case opRef, opIfGroup, opIfLook:
		*to = set{}.not()
	}
	return false
}

// anchored reports whether a match can only begin at the beginning of the subject.
func (n *node) anchored() bool {
	switch n.op {
	case opBegin:
		return true
	case opCat:
		return len(n.subs) > 0 && n.subs[0].anchored()
	case opCapture, opAtomic:
		return n.subs[0].anchored()
	case opAlt:
		return n.all((*node).anchored)
	}
	return false
}

// startsLine reports whether a match can only begin where a line does: the node begins with .* or
// the like, which would have matched what precedes in the line, too. Groups that are referred to,
// and atomic ones, may differ.
func (n *node) startsLine() bool {
	switch n.op {
	case opCat:
		return len(n.subs) > 0 && n.subs[0].startsLine()
	case opCapture:
		return n.subs[0].startsLine()
	case opRepeat:
		all := n.subs[0].set
		all.add('\n')
		return n.min == 0 && n.max < 0 && n.subs[0].op == opSet && all == set{}.not()
	}
	return false
}
