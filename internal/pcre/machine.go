package pcre

import "slices"

// memoAfter is the number of steps after which a match remembers which instructions have failed
// where. Without references to groups they fail there again. So nested repetitions need a time
// polynomial in the subject's length, and usual matches pay nothing.
const memoAfter = 1 << 15

const (
	maxMemo      = 1 << 23 // bits of that memory
	maxMemoMarks = 8       // marks of a program, each of which doubles it
)

// maxStack limits the backtracking stack to some megabytes.
const maxStack = 1 << 18

// frame is an entry of the backtracking stack: an alternative to try, or a change to undo.
type frame struct {
	kind frameKind
	pc   int32 // of a run: the instruction; of a change: the slot
	at   int32 // the position in the subject; of a change: the old value
	end  int32 // of a run: the last possible position
}

type frameKind uint8

const (
	frameBranch frameKind = iota
	frameRun
	frameLazyRun
	frameCapture
	frameMark
)

// machine is the state of a match.
type machine struct {
	re        *Regexp
	prog      []inst
	s         string
	caps      []int
	marks     []int // where iterations have begun
	stack     []frame
	limit     int // of the steps
	steps     int // remaining
	memoBelow int // steps below which failures are remembered
	memo      []uint64
	subs      int // sub-programs that are running: they succeed or fail on their own
}

// run runs the program from an instruction and a position. It returns the end of the match, or -1.
// Its frames are above base.
func (m *machine) run(pc, at int) (int, error) {
	base := len(m.stack)
	for {
		if m.steps--; m.steps < 0 || len(m.stack) > maxStack {
			return -1, ErrLimit
		}
		i := &m.prog[pc]
		ok := true
		switch i.op {
		case instAccept:
			return at, nil
		case instSet:
			if ok = at < len(m.s) && i.set.has(m.s[at]); ok {
				at++
			}
			pc++
		case instRun:
			if ok = m.steps >= m.memoBelow || !m.hasFailed(i, at); ok {
				at, ok = m.runOf(i, pc, at)
			}
			pc++
		case instSplit:
			if ok = m.steps >= m.memoBelow || !m.hasFailed(i, at); ok {
				m.push(frameBranch, i.y, at, 0)
			}
			pc = i.x
		case instAlt:
			if m.steps >= m.memoBelow || !m.hasFailed(i, at) {
				m.pushAlternatives(i, at)
			}
			ok = false
		case instJump:
			pc = i.x
		case instSave, instClose, instMark:
			m.store(i, at)
			pc++
		case instAgain:
			if pc++; m.marks[i.x] != at {
				pc = i.y
			}
		case instRef:
			at, ok = m.ref(i, at)
			pc++
		case instBack:
			at -= i.x
			ok = at >= 0
			pc++
		case instSub:
			var err error
			if at, ok, err = m.sub(i, pc+1, at); err != nil {
				return -1, err
			}
			pc = i.x
		default:
			ok = m.holds(i.assertion, at)
			pc++
		}
		if !ok {
			if pc, at, ok = m.back(base); !ok {
				return -1, nil
			}
		}
	}
}

func (m *machine) push(kind frameKind, pc, at, end int) {
	m.stack = append(m.stack, frame{kind, int32(pc), int32(at), int32(end)})
}

// store sets captures or marks, and pushes what undoes it.
func (m *machine) store(i *inst, at int) {
	switch i.op {
	case instMark:
		m.push(frameMark, i.x, m.marks[i.x], 0)
		m.marks[i.x] = at
	case instSave:
		m.push(frameCapture, i.x, m.caps[i.x], 0)
		m.caps[i.x] = at
	case instClose:
		m.push(frameCapture, 2*i.n, m.caps[2*i.n], 0)
		m.push(frameCapture, 2*i.n+1, m.caps[2*i.n+1], 0)
		m.caps[2*i.n], m.caps[2*i.n+1] = m.marks[i.x], at
	}
}

// hasFailed reports whether the match has failed at an instruction and a position before, and
// otherwise remembers it: if the match succeeds it does not come back.
func (m *machine) hasFailed(i *inst, at int) bool {
	if m.subs > 0 {
		return false
	}
	if m.memo == nil {
		bits := m.re.memoSlots * (len(m.s) + 1)
		if bits > maxMemo {
			m.memoBelow = 0
			return false
		}
		m.memo = make([]uint64, bits/64+1)
	}
	state := i.n
	for _, mark := range m.marks { // a repetition ends differently at the position of its mark
		if state *= 2; mark == at {
			state++
		}
	}
	bit := state*(len(m.s)+1) + at
	if m.memo[bit/64]>>(bit%64)&1 == 1 {
		return true
	}
	m.memo[bit/64] |= 1 << (bit % 64)
	return false
}

// pushAlternatives pushes the targets that may match, so that the first one is taken next.
func (m *machine) pushAlternatives(i *inst, at int) {
	base, node, end := len(m.stack), int32(0), at
	for {
		for _, n := range i.trie.endsAt(node) {
			m.push(frameBranch, i.targets[n], at, 0)
		}
		if end == len(m.s) {
			break
		}
		if node = i.trie.next(node, m.s[end]); node == 0 {
			break
		}
		end++
	}
	m.steps -= (end-at)/4 + len(m.stack) - base
	if all := m.stack[base:]; len(all) > 1 {
		slices.SortFunc(all, func(a, b frame) int { return int(b.pc - a.pc) })
		m.stack = m.stack[:base+len(slices.Compact(all))]
	}
}

// back takes the next alternative from the stack, above base.
func (m *machine) back(base int) (pc, at int, ok bool) {
	for len(m.stack) > base {
		f := &m.stack[len(m.stack)-1]
		switch f.kind {
		case frameBranch:
			m.stack = m.stack[:len(m.stack)-1]
			return int(f.pc), int(f.at), true
		case frameRun:
			if m.shorten(f) {
				return int(f.pc) + 1, int(f.at), true
			}
		case frameLazyRun:
			if f.at < f.end && m.prog[f.pc].set.has(m.s[f.at]) {
				f.at++
				return int(f.pc) + 1, int(f.at), true
			}
		default:
			m.restore(f)
		}
		m.stack = m.stack[:len(m.stack)-1]
	}
	return 0, 0, false
}

// shorten makes a run shorter, until the next instruction can match. It reports whether there is
// such an end.
func (m *machine) shorten(f *frame) bool {
	next, from, ok := &m.prog[f.pc+1], f.at, false
	for !ok && f.at > f.end {
		f.at-- // there is at least one byte, which the run has given up
		ok = next.op != instSet || next.set.has(m.s[f.at])
	}
	m.steps -= int(from-f.at) / 8
	return ok
}

// runOf matches bytes of a set, as many as possible.
func (m *machine) runOf(i *inst, pc, at int) (int, bool) {
	most := len(m.s)
	if i.max >= 0 {
		most = min(most, at+i.max)
	}
	least, end, to := at+i.min, most, at
	if i.lazy {
		end = min(least, most)
	}
	for to < end && i.set.has(m.s[to]) {
		to++
	}
	m.steps -= (to - at) / 8
	if to < least {
		return at, false
	}
	if i.lazy {
		m.push(frameLazyRun, pc, to, most)
	} else if !i.possessive && to > least {
		m.push(frameRun, pc, to, least)
	}
	return to, true
}

// ref matches the text of a group. It fails if the group has not matched.
func (m *machine) ref(i *inst, at int) (int, bool) {
	from, to := m.caps[2*i.n], m.caps[2*i.n+1]
	if from < 0 || to < 0 || len(m.s)-at < to-from {
		return at, false
	}
	m.steps -= (to - from) / 8
	for k := from; k < to; k++ {
		a, b := m.s[k], m.s[at+k-from]
		if a != b && (!i.lazy || !isLetter(a) || a^b != 0x20) { // lazy means fold here
			return at, false
		}
	}
	return at + to - from, true
}

// sub runs the program of an atomic group or an assertion. Captures stay, except those of a
// negative assertion.
func (m *machine) sub(i *inst, pc, at int) (next int, ok bool, err error) {
	base := len(m.stack)
	m.subs++
	end, err := m.run(pc, at)
	m.subs--
	switch {
	case err != nil:
		return at, false, err
	case end < 0 || i.sub == subNotLook:
		m.undo(base)
	default:
		m.cut(base)
	}
	switch i.sub {
	case subAtomic:
		return end, end >= 0, nil
	case subLook:
		return at, end >= 0, nil
	}
	return at, end < 0, nil
}

// undo undoes all changes above base.
func (m *machine) undo(base int) {
	for len(m.stack) > base {
		m.restore(&m.stack[len(m.stack)-1])
		m.stack = m.stack[:len(m.stack)-1]
	}
}

// restore undoes a change.
func (m *machine) restore(f *frame) {
	switch f.kind {
	case frameCapture:
		m.caps[f.pc] = int(f.at)
	case frameMark:
		m.marks[f.pc] = int(f.at)
	}
}

// cut removes the alternatives above base, and keeps the changes to undo.
func (m *machine) cut(base int) {
	kept := m.stack[:base]
	for _, f := range m.stack[base:] {
		if f.kind == frameCapture || f.kind == frameMark {
			kept = append(kept, f)
		}
	}
	m.stack = kept
}

func (m *machine) holds(assertion op, at int) bool {
	s := m.s
	switch assertion {
	case opBegin:
		return at == 0
	case opEnd:
		return at == len(s)
	case opEndOrLine:
		return at == len(s) || at == len(s)-1 && s[at] == '\n'
	case opLineBegin:
		return at == 0 || at < len(s) && s[at-1] == '\n'
	case opLineEnd:
		return at == len(s) || s[at] == '\n'
	}
	edge := (at > 0 && isWord(s[at-1])) != (at < len(s) && isWord(s[at]))
	return edge == (assertion == opWord)
}
