package pcre

import "errors"

// instOp is what an instruction does.
type instOp uint8

const (
	instAccept  instOp = iota // the program, or the one within, matches
	instSet                   // a byte of the set
	instRun                   // min to max bytes of the set
	instSplit                 // goes on at x, or else at y
	instJump                  // goes on at x
	instSave                  // the place is the capture x
	instMark                  // an iteration begins, whose mark is x
	instAgain                 // it ends: it goes on at y, unless it has matched nothing
	instRef                   // what the group n has matched
	instBack                  // x bytes back
	instIfGroup               // goes on behind if the group n has matched, else at x
	instSub                   // runs the program behind it, and then goes on at x, or for a condition that fails at y
	instBegin
	instEnd
	instEndOrLine
	instLineBegin
	instLineEnd
	instWord
	instNoWord
)

// subKind is what a program within is run for.
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
	lazy       bool // of a run; of a reference that case does not count
	possessive bool
	n, x, y    int
	min, max   int
	set        set
}

// maxProgram bounds instructions, as PCRE bounds what it compiles to.
const maxProgram = 1 << 15

var errTooLarge = errors.New("it is too large: repeat less of it")

// builder makes a program.
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
		b.look(n)
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

// within makes a program that is run by itself.
func (b *builder) within(kind subKind, body *node) int {
	at := b.emit(inst{op: instSub, sub: kind})
	b.node(body)
	b.emit(inst{op: instAccept})
	b.prog[at].x = len(b.prog)
	return at
}

func (b *builder) look(n *node) int {
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

// behind has each alternative begin as far back as it is long.
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
	at := b.look(n.subs[0])
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

// repeat makes a run of a set, and of all else copies: as many as there must be, and as many as there may be, or a loop.
func (b *builder) repeat(n *node) {
	body := n.subs[0]
	if body.op == opSet {
		b.emit(inst{op: instRun, set: body.set, min: n.min, max: n.max, lazy: n.lazy})
		return
	}
	for range n.min {
		before := len(b.prog)
		if b.node(body); b.err != nil || len(b.prog) == before {
			return // what has no instructions is not repeated
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

// split goes on behind it first, or last if it is lazy. Where else it goes leave says.
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
