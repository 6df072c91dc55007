package sched

import "sync/atomic"

// Lead records which leader leads a loop, and what it does.
type Lead struct {
	scheduler *Scheduler
	promote   func()

	// Owned by the guard.
	seen      uint64 // the word at the last check
	isExcused bool   // a late check found the word again, which proves nothing

	// word identifies the leader and its work; see below. It costs one store and one
	// compare-and-swap for each connection served, and one more compare-and-swap for each
	// handler.
	_    [64]byte
	word atomic.Uint64
	_    [56]byte
}

// The states of a word, which is sequence | slot | serving:
//
//	idle (even) ──Begin──▶ serving (odd, no slot)
//	serving, in a handler ──Enter──▶ in a handler (odd, slot)
//	serving, in a handler ──End──▶ idle
//	serving, in a handler ──take──▶ idle, of the next sequence and another leader
//	idle ──Resign──▶ idle, of another leader
//
// While the leader serves a connection, the word is odd and is the leader's token. The leader
// stores a new token when it begins to serve a connection. Before each handler it exchanges the
// token for one that contains the handler's slot in the predictor. It makes the word even when it
// is done.
//
// If the guard finds the same token twice, it takes the lead: it exchanges the token for an even
// word of the next sequence, and promotes another leader. The old leader notices when its next
// compare-and-swap fails. Sequences only grow, so that no token is used twice.
const (
	servingBit    = 1
	slotShift     = 1
	slotBits      = 13 // slots + 1 values
	sequenceShift = slotShift + slotBits
)

// wordAfter returns the word that takes the lead from the holder of a token.
func wordAfter(token uint64) uint64 { return (token>>sequenceShift + 1) << sequenceShift }

// slotIn returns the slot of the handler that the holder of a token runs, or NoSlot.
func slotIn(token uint64) SlotID { return SlotID(token >> slotShift & (1<<slotBits - 1)) }

// take takes the lead from the holder of a token. It reports whether the holder was still the
// leader. The handler that it runs is charged now, not when it returns. It may hang, and meanwhile
// further requests of its route would hold up loops.
func (l *Lead) take(token uint64) bool {
	if !l.word.CompareAndSwap(token, wordAfter(token)) {
		return false
	}
	l.scheduler.slots[slotIn(token)].chargeStall()
	l.promote()
	return true
}

// Leader is the state of a goroutine that leads a loop, or has led one. Only that goroutine and the
// handler that it runs use it.
type Leader struct {
	lead     *Lead
	sequence uint64 // number of what it serves
	token    uint64 // not zero while it serves; see Lead.word
	runs     uint64 // handlers run on the loop
}

// Follow makes r the next leader. The last one has lost the lead, or has resigned.
func (r *Leader) Follow(l *Lead) { r.lead, r.sequence = l, l.word.Load()>>sequenceShift }

// Begin is called before the leader serves a connection. It stores a token, and then wakes the
// guard if it sleeps. The guard marks itself as asleep and then reads the words. One of the two
// sees what the other has stored, so that no handler runs on an unguarded loop.
func (r *Leader) Begin() {
	r.sequence++
	r.token = r.sequence<<sequenceShift | servingBit
	r.lead.word.Store(r.token)
	r.lead.scheduler.wake()
}

// Enter is called before a handler runs, with its slot. It reports false if the goroutine does not
// lead, or no longer leads.
func (r *Leader) Enter(at SlotID) bool {
	if r.token == 0 {
		return false
	}
	r.sequence++
	token := r.sequence<<sequenceShift | uint64(at)<<slotShift | servingBit
	if !r.lead.word.CompareAndSwap(r.token, token) {
		return false
	}
	r.token = token
	return true
}

// CountRun counts a handler that Enter has permitted. It reports whether to time it.
func (r *Leader) CountRun(at SlotID) (isTimed bool) {
	if !r.lead.scheduler.slots[at].addTrust() {
		r.lead.scheduler.checkSoon()
	}
	r.runs++
	return r.runs%sampleEvery == 0
}

// End is called when the connection was served. It reports whether the goroutine still leads.
func (r *Leader) End() (leads bool) {
	token := r.token
	r.token = 0
	return r.lead.word.CompareAndSwap(token, r.sequence<<sequenceShift)
}

// IsServing reports whether the goroutine serves a connection as the leader, although it may have
// lost the lead.
func (r *Leader) IsServing() bool { return r.token != 0 }

// Leads reports whether the goroutine serves a connection and has not lost the lead.
func (r *Leader) Leads() bool { return r.token != 0 && r.lead.word.Load() == r.token }

// MayBlock gives up the lead, if the goroutine has it, before a call that may block.
func (r *Leader) MayBlock() {
	if r.token != 0 {
		r.lead.take(r.token)
	}
}

// Resign gives up the lead while the leader serves nothing.
func (r *Leader) Resign() { r.lead.promote() }
