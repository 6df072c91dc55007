package pcre

import "errors"

// instOp is what an instruction does.
type instOp uint8

const (
	instAccept instOp = iota // ends the program, or a sub-program, with a match
	instSet                  // matches a byte of the set
	instRun                  // matches min to max bytes of the set
	instSplit                // continues at x, and after a failure at y
	instJump                 // continues at x
	instSave                 // sets capture x to the position
	instMark                 // begins an iteration with mark x
	instAgain                // ends an iteration: continues at y, unless it has matched nothing
	instRef                  // matches the text of group n
	instBack                 // moves x bytes back
	// continues with the next instruction if group n has matched, else at x
	instIfGroup
	// runs the following sub-program, then continues at x; for a failed condition, at y
	instSub
	instBegin
	instEnd
	instEndOrLine
	instLineBegin
	instLineEnd
	instWord
	instNoWord
)

// subKind is the purpose of a sub-program.
type subKind uint8

const (
	subAtomic subKind = iota
	subLook
	subNotLook
	subIf
	subIfNot
)

// inst is an instruction.
type inst struct {
	op         instOp
	sub        subKind
	lazy       bool // of a run; of a backreference: ignores case
	possessive bool
	n, x, y    int
	min, max   int
	set        set
}

// maxProgram limits the number of instructions, as PCRE limits its compiled code.
const maxProgram = 1 << 15

var errTooLarge = errors.New("too large (use smaller repetitions)")

// builder builds a program.
type builder struct {
	prog  []inst
	marks int
	err   error
}

func (b *builder) emit(i inst) int {
	if len(b.prog) >= maxProgram {
		b.err = errTooLarge
		return len(b.prog) - 1
	}
	b.prog = append(b.prog, i)
	return len(b.prog) - 1
}

func (b *builder) node(n *node) {
	if b.err != nil {
		return
	}
	switch n.op {
	case opEmpty:
	case opSet:
		b.emit(inst{op: instSet, set: n.set})
	case opCat:
		for _, s := range n.subs {
			b.node(s)
		}
	case opAlt:
		b.alternatives(n.subs)
	case opRepeat:
		b.repeat(n)
	case opCapture:
		b.emit(inst{op: instSave, x: 2 * n.n})
		b.node(n.subs[0])
		b.emit(inst{op: instSave, x: 2*n.n + 1})
	case opAtomic:
		if r := n.subs[0]; r.op == opRepeat && r.subs[0].op == opSet && !r.lazy {
			b.emit(inst{op: instRun, set: r.subs[0].set, min: r.min, max: r.max, possessive: true})
			break
		}
		b.within(subAtomic, n.subs[0])
	case opLook, opBehind:
		b.lookaround(n)
	case opRef:
		b.emit(inst{op: instRef, n: n.n, lazy: n.fold})
	case opKeep:
		b.emit(inst{op: instSave, x: 0})
	case opIfGroup:
		at := b.emit(inst{op: instIfGroup, n: n.n})
		b.node(n.subs[0])
		end := b.emit(inst{op: instJump})
		b.prog[at].x = len(b.prog)
		b.node(n.subs[1])
		b.prog[end].x = len(b.prog)
	case opIfLook:
		b.ifLook(n)
	case opBack:
		b.emit(inst{op: instBack, x: n.n})
	default:
		b.emit(inst{op: instBegin + instOp(n.op-opBegin)})
	}
}

func (b *builder) alternatives(subs []*node) {
	var ends []int
	for i, s := range subs {
		if i == len(subs)-1 {
			b.node(s)
			break
		}
		split := b.emit(inst{op: instSplit})
		b.prog[split].x = len(b.prog)
		b.node(s)
		ends = append(ends, b.emit(inst{op: instJump}))
		b.prog[split].y = len(b.prog)
	}
	for _, at := range ends {
		b.prog[at].x = len(b.prog)
	}
}

// within adds a sub-program.
func (b *builder) within(kind subKind, body *node) int {
	at := b.emit(inst{op: instSub, sub: kind})
	b.node(body)
	b.emit(inst{op: instAccept})
	b.prog[at].x = len(b.prog)
	return at
}

func (b *builder) lookaround(n *node) int {
	kind := subLook
	if n.not {
		kind = subNotLook
	}
	body := n.subs[0]
	if n.op == opBehind {
		body = behind(body)
	}
	return b.within(kind, body)
}

// behind makes each alternative of a lookbehind start as far back as its length.
func behind(n *node) *node {
	if n.op != opAlt {
		return &node{op: opCat, subs: []*node{{op: opBack, n: n.length()}, n}}
	}
	out := &node{op: opAlt}
	for _, s := range n.subs {
		out.subs = append(out.subs, behind(s))
	}
	return out
}

func (b *builder) ifLook(n *node) {
	at := b.lookaround(n.subs[0])
	if b.prog[at].sub == subLook {
		b.prog[at].sub = subIf
	} else {
		b.prog[at].sub = subIfNot
	}
	b.node(n.subs[1])
	end := b.emit(inst{op: instJump})
	b.prog[at].y = len(b.prog)
	b.node(n.subs[2])
	b.prog[end].x = len(b.prog)
}

// repeat emits a run for a set. For other items it emits copies: as many as required, and then as
// many as allowed, or a loop.
func (b *builder) repeat(n *node) {
	body := n.subs[0]
	if body.op == opSet {
		b.emit(inst{op: instRun, set: body.set, min: n.min, max: n.max, lazy: n.lazy})
		return
	}
	for range n.min {
		before := len(b.prog)
		if b.node(body); b.err != nil || len(b.prog) == before {
			return // an empty program needs no repetition
		}
	}
	if n.max >= 0 {
		var splits []int
		for range n.max - n.min {
			splits = append(splits, b.split(n.lazy))
			if b.node(body); b.err != nil {
				return
			}
		}
		for _, at := range splits {
			b.leave(at, n.lazy)
		}
		return
	}
	split := b.split(n.lazy)
	if body.nullable() {
		mark := b.marks
		b.marks++
		b.emit(inst{op: instMark, x: mark})
		b.node(body)
		b.emit(inst{op: instAgain, x: mark, y: split})
	} else {
		b.node(body)
		b.emit(inst{op: instJump, x: split})
	}
	b.leave(split, n.lazy)
}

// split emits a split that tries the next instruction first, or last if lazy. leave sets its other
// target.
func (b *builder) split(lazy bool) int {
	at := b.emit(inst{op: instSplit})
	if b.prog[at].x = at + 1; lazy {
		b.prog[at].y = at + 1
	}
	return at
}

func (b *builder) leave(split int, lazy bool) {
	if lazy {
		b.prog[split].x = len(b.prog)
	} else {
		b.prog[split].y = len(b.prog)
	}
}
