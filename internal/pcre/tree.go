package pcre

import "slices"

// op is what a node matches.
type op uint8

const (
	opEmpty     op = iota
	opSet          // a byte of a set
	opCat          // subs, one behind the other
	opAlt          // one of subs, of which the first that fits counts
	opRepeat       // subs[0], min to max times
	opCapture      // subs[0], as the group n
	opAtomic       // subs[0], in the first way that fits
	opLook         // subs[0] ahead
	opBehind       // subs[0] behind
	opBegin        // the beginning of the subject
	opEnd          // its end
	opEndOrLine    // its end, or in front of a line end there
	opLineBegin    // the beginning of a line
	opLineEnd      // the end of one
	opWord         // the edge of a word
	opNoWord       // no such edge
	opRef          // what the group n has matched
	opKeep         // the match begins here
	opIfGroup      // subs[0] if the group n has matched, else subs[1]
	opIfLook       // subs[1] if the assertion subs[0] holds, else subs[2]
	opBack         // n bytes back, without a look at them
)

// node is one of a tree.
type node struct {
	op       op
	not      bool // of a look
	lazy     bool // of a repeat: as few as possible
	fold     bool // of a reference
	n        int
	min, max int // of a repeat; max -1 is any number
	set      set
	subs     []*node
}

// isAssertion reports whether the node matches a place, which is not repeated.
func (n *node) isAssertion() bool {
	return n.op >= opBegin && n.op <= opNoWord || n.op == opKeep
}

// nullable reports whether the node may match nothing.
func (n *node) nullable() bool {
	switch n.op {
	case opSet:
		return false
	case opCat:
		for _, s := range n.subs {
			if !s.nullable() {
				return false
			}
		}
		return true
	case opAlt, opIfGroup:
		for _, s := range n.subs {
			if s.nullable() {
				return true
			}
		}
		return false
	case opIfLook:
		return n.subs[1].nullable() || n.subs[2].nullable()
	case opRepeat:
		return n.min == 0 || n.subs[0].nullable()
	case opCapture, opAtomic:
		return n.subs[0].nullable()
	}
	return true
}

// captures reports whether there is a group that captures.
func (n *node) captures() bool {
	return n.op == opCapture || slices.ContainsFunc(n.subs, (*node).captures)
}

// keeps reports whether there is a \K.
func (n *node) keeps() bool {
	return n.op == opKeep || slices.ContainsFunc(n.subs, (*node).keeps)
}

// length is how many bytes the node always matches; -1 is that it varies.
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
	case opRef:
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

// first adds the bytes that a match may begin with, and reports whether it must begin with one of them.
func (n *node) first(to *set) bool {
	switch n.op {
	case opSet:
		to.addSet(n.set)
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

// anchored reports whether a match can only begin where the subject does.
func (n *node) anchored() bool {
	switch n.op {
	case opBegin:
		return true
	case opCat:
		return len(n.subs) > 0 && n.subs[0].anchored()
	case opCapture, opAtomic:
		return n.subs[0].anchored()
	case opAlt:
		for _, s := range n.subs {
			if !s.anchored() {
				return false
			}
		}
		return true
	}
	return false
}
