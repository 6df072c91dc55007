package pcre

import "slices"

type op uint8

const (
	opSet       op = iota // a byte in the set
	opCat                 // all subs in sequence
	opAlt                 // the first of subs that matches
	opRepeat              // subs[0], min to max times
	opCapture             // subs[0], captured as group n
	opAtomic              // subs[0], without backtracking into it
	opLook                // lookahead for subs[0]; a lookbehind begins with opBack
	opBegin               // the beginning of the subject
	opEnd                 // the end of the subject
	opEndOrLine           // the end of the subject, or before a line end there
	opLineBegin           // the beginning of a line
	opLineEnd             // the end of a line
	opWord                // a word boundary
	opNoWord              // no word boundary
	opRef                 // the text of group n
	opKeep                // resets the beginning of the match
	opBack                // moves n bytes back, whatever they are
)

type node struct {
	op       op
	not      bool // of a lookaround
	lazy     bool // of a repetition: as few as possible
	fold     bool // of a backreference
	n        int
	name     string // of a backreference's group
	min, max int    // of a repetition; max -1 means no limit
	set      set
	subs     []*node
}

// nullable reports whether the node may match the empty string.
func (n *node) nullable() bool {
	switch n.op {
	case opSet:
		return false
	case opCat:
		return n.all((*node).nullable)
	case opAlt:
		return slices.ContainsFunc(n.subs, (*node).nullable)
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

// has reports whether the node contains an operation.
func (n *node) has(o op) bool {
	return n.op == o || slices.ContainsFunc(n.subs, func(s *node) bool { return s.has(o) })
}

// refersTo reports whether the node depends on the text of a group.
func (n *node) refersTo(group int) bool {
	return n.op == opRef && n.n == group || slices.ContainsFunc(n.subs, func(s *node) bool { return s.refersTo(group) })
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
	case opAlt:
		l := n.subs[0].length()
		if slices.ContainsFunc(n.subs, func(s *node) bool { return s.length() != l }) {
			return -1
		}
		return l
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

// first adds the possible first bytes of a match, and reports whether a match must begin with one
// of them.
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
	case opRef:
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
