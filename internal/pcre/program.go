package pcre

import "errors"

type instOp uint8

const (
	instAccept   instOp = iota // ends the program, or a sub-program, with a match
	instSet                    // matches a byte of the set
	instRun                    // matches min to max bytes of the set
	instSplit                  // continues at x, and after a failure at y
	instAlt                    // continues at those of the targets that the trie finds, one after another
	instJump                   // continues at x
	instSave                   // sets capture x to the position
	instMark                   // sets mark x to the position, as for an iteration that begins
	instClose                  // sets group n to what follows mark x
	instAgain                  // ends an iteration: continues at y, unless it has matched nothing
	instRef                    // matches the text of group n
	instBack                   // moves x bytes back
	instSub                    // runs the following sub-program, then continues at x
	instPosition               // matches where the assertion holds
)

// subKind is the purpose of a sub-program.
type subKind uint8

const (
	subAtomic subKind = iota
	subLook
	subNotLook
)

type inst struct {
	op         instOp
	sub        subKind
	lazy       bool // of a run; of a backreference: ignores case
	possessive bool
	assertion  op
	n, x, y    int
	min, max   int
	set        set
	trie       *trie
	targets    []int
}

const (
	// maxProgram limits the number of instructions, as PCRE limits its compiled code.
	maxProgram = 1 << 15
	// maxTrieNodes limits the tries: a list in many groups may belong to as many.
	maxTrieNodes = 1 << 17
)

var errTooLarge = errors.New("too large (use smaller repetitions)")

type builder struct {
	prog      []inst
	marks     int
	memoSlots int
	tries     map[*node]*trie // nil for those that cannot have one
	trieNodes int
	err       error
}

func (b *builder) emit(i inst) int {
	if len(b.prog) >= maxProgram {
		b.err = errTooLarge
		return len(b.prog) - 1
	}
	if i.op == instSplit || i.op == instAlt || i.op == instRun {
		i.n = b.memoSlots
		b.memoSlots++
	}
	b.prog = append(b.prog, i)
	return len(b.prog) - 1
}

func (b *builder) node(n *node) {
	if b.err != nil {
		return
	}
	switch n.op {
	case opSet:
		b.emit(inst{op: instSet, set: n.set})
	case opCat:
		for _, s := range n.subs {
			b.node(s)
		}
	case opAlt:
		b.alternatives(n)
	case opRepeat:
		b.repeat(n)
	case opCapture:
		if n.refersTo(n.n) { // to the previous iteration
			mark := b.mark()
			b.node(n.subs[0])
			b.emit(inst{op: instClose, n: n.n, x: mark})
			break
		}
		b.emit(inst{op: instSave, x: 2 * n.n})
		b.node(n.subs[0])
		b.emit(inst{op: instSave, x: 2*n.n + 1})
	case opAtomic:
		if r := n.subs[0]; r.op == opRepeat && r.subs[0].op == opSet && !r.lazy {
			b.emit(inst{op: instRun, set: r.subs[0].set, min: r.min, max: r.max, possessive: true})
			break
		}
		b.within(subAtomic, n.subs[0])
	case opLook:
		kind := subLook
		if n.not {
			kind = subNotLook
		}
		b.within(kind, n.subs[0])
	case opRef:
		b.emit(inst{op: instRef, n: n.n, lazy: n.fold})
	case opKeep:
		b.emit(inst{op: instSave, x: 0})
	case opBack:
		b.emit(inst{op: instBack, x: n.n})
	default:
		b.emit(inst{op: instPosition, assertion: n.op})
	}
}

// alternatives emits a split between two alternatives. More are chosen by a trie if possible, which
// makes a list of names as fast as a name.
func (b *builder) alternatives(n *node) {
	var ends, targets []int
	at := -1
	if t := b.trie(n); t != nil {
		at = b.emit(inst{op: instAlt, trie: t})
	}
	for i, s := range n.subs {
		targets = append(targets, len(b.prog))
		isLast := i == len(n.subs)-1
		split := -1
		if at < 0 && !isLast {
			split = b.emit(inst{op: instSplit, x: len(b.prog) + 1})
		}
		if b.node(s); isLast {
			break
		}
		ends = append(ends, b.emit(inst{op: instJump}))
		if split >= 0 {
			b.prog[split].y = len(b.prog)
		}
	}
	if at >= 0 {
		b.prog[at].targets = targets
	}
	for _, at := range ends {
		b.prog[at].x = len(b.prog)
	}
}

// trie returns the trie of alternatives, which repetitions of them share, or nil.
func (b *builder) trie(n *node) *trie {
	t, ok := b.tries[n]
	if ok || len(n.subs) < 3 || b.trieNodes > maxTrieNodes {
		return t
	}
	texts := make([][]string, len(n.subs))
	for i, s := range n.subs {
		texts[i], _ = s.prefixes()
	}
	if t = newTrie(texts); t != nil {
		b.trieNodes += len(t.nodes)
	}
	b.tries[n] = t
	return t
}

// within adds a sub-program.
func (b *builder) within(kind subKind, body *node) {
	at := b.emit(inst{op: instSub, sub: kind})
	b.node(body)
	b.emit(inst{op: instAccept})
	b.prog[at].x = len(b.prog)
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
		mark := b.mark()
		b.node(body)
		b.emit(inst{op: instAgain, x: mark, y: split})
	} else {
		b.node(body)
		b.emit(inst{op: instJump, x: split})
	}
	b.leave(split, n.lazy)
}

// mark emits an instruction that sets a mark of its own.
func (b *builder) mark() int {
	b.emit(inst{op: instMark, x: b.marks})
	b.marks++
	return b.marks - 1
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
