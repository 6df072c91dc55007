package engine

import (
	"errors"
	"io"
	"net/http"
	"runtime"
	"time"

	"github.com/tarehq/tare/internal/poll"
	"github.com/tarehq/tare/internal/wire/fcgi"
	"github.com/tarehq/tare/internal/wire/http1"
)

// turnRequests is how many requests of one client a runner serves in a row. A client that sends
// without pause is then moved to a goroutine of its own, which yields as often. Without this limit
// two such clients delay all others of their loops for as long as the stall guard allows.
const turnRequests = 64

// runner is a goroutine that serves connections of a shard, with a conn of its own. One runner of
// each shard leads: it waits for the shard's loop and serves the connections that are ready, their
// handlers included. The others run handlers that were expected to be slow, or lost the lead
// because theirs was slow. Then they wait for work.
type runner struct {
	shard     *shard
	conn      *conn
	work      chan job
	sequence  uint64 // number of what it serves as leader
	token     uint64 // not zero while it serves as leader; see shard.word
	runs      uint64 // handlers run on the loop
	turnCount int    // requests of the current connection served in a row
	threadCheck

	handOffs   int     // hand-offs since startHandOffs
	reportedAt instant // when the loop reported what it serves as leader
}

// job is the work of a free runner: to lead if conn is nil, otherwise to serve conn, beginning with
// the request that its new conn holds.
type job struct {
	conn    *shardConn
	request *exchange
	slot    slotID
}

// shardState is the part of a conn that belongs to a shard's runner.
type shardState struct {
	runner       *runner
	mayHaveInput bool // there may be more to read

	resumedHead *partialHead // the partialHead from which the current head was resumed
}

func newRunner(s *shard) *runner {
	r := &runner{shard: s, conn: newConn(shardInSize), work: make(chan job, 1)}
	r.conn.runner = r
	r.conn.batches = true
	return r
}

// run works until the runner is no longer needed.
func (r *runner) run(j job) {
	resetLabels() // of the handler in whose goroutine it was started
	returned := false
	defer func() {
		if !returned { // runtime.Goexit in a handler; serve has closed the connection
			r.shard.runnerExited(r)
		}
	}()
	for {
		if j.conn == nil {
			r.lead()
		} else {
			r.serve(j.conn, j.request, j.slot)
			r.isLocked(time.Now())
		}
		if r.locked {
			break
		}
		var ok bool
		if j, ok = awaitWork(&r.shard.freeRunners, r, r.work); !ok {
			break
		}
	}
	returned = true
}

// lead serves the loop's events until another runner leads, or until the shard was stopped.
func (r *runner) lead() {
	s := r.shard
	r.sequence, r.reportedAt = s.word.Load()>>sequenceShift, s.group.now()
	for {
		for s.nextEvent < len(s.events) {
			e := s.events[s.nextEvent]
			s.nextEvent++
			if k := s.group.conns.at(e.ID); k != nil && k.place.shard == s && k.claim(e) {
				if !r.serveAsLeader(k) {
					return
				}
				if r.handOffs >= handOffBatch {
					r.startHandOffs()
				}
			}
		}
		if r.handOffs > 0 {
			r.startHandOffs()
		}
		if !s.waitEvents() {
			return
		}
		r.reportedAt = s.group.instant(s.reportedAt)
		if r.isLocked(s.reportedAt) {
			s.resignLead()
			return
		}
	}
}

// serveAsLeader serves k and reports whether the runner still leads.
func (r *runner) serveAsLeader(k *shardConn) bool {
	r.beginServing()
	r.serve(k, nil, noSlot)
	token := r.token
	r.token = 0
	return r.shard.word.CompareAndSwap(token, r.sequence<<sequenceShift)
}

// beginServing stores the token of a leader that is about to serve a connection, and then wakes the
// stall guard if it sleeps. The guard marks itself as asleep and then reads the words. One of the
// two sees what the other has stored, so that no handler runs on an unguarded loop.
func (r *runner) beginServing() {
	r.sequence++
	r.token = r.sequence<<sequenceShift | servingBit
	r.shard.word.Store(r.token)
	r.shard.group.guard.wake()
}

// enterHandler stores the slot of the handler that is about to run in the shard's word. It reports
// false if the runner does not lead, or no longer leads.
func (r *runner) enterHandler(at slotID) bool {
	if r.token == 0 {
		return false
	}
	token := (r.sequence+1)<<sequenceShift | uint64(at)<<slotShift | servingBit
	if !r.shard.word.CompareAndSwap(r.token, token) {
		return false
	}
	r.sequence++
	r.token = token
	return true
}

// serve serves the requests that arrive on k until no more input has arrived. If x is not nil, it
// serves x first, which another runner has handed off. When serve returns, k waits, is closed, or
// belongs to another runner.
func (r *runner) serve(k *shardConn, x *exchange, at slotID) {
	settled := false
	r.turnCount = 0
	defer func() {
		if !settled {
			r.conn.abortExchange(recover())
			resetLabels()
			r.conn.detach()
			_ = k.Close()
		}
	}()
	if x == nil {
		r.conn.attach(k)
	}
	switch r.serveRequests(k, x, at) {
	case outcomeClose:
		r.conn.detach()
		_ = k.Close()
	case outcomeWaits, outcomeHandedOff:
	}
	resetLabels()
	settled = true
}

// outcome is what becomes of a connection when its runner leaves it.
type outcome uint8

const (
	outcomeClose     outcome = iota // it must be closed
	outcomeWaits                    // it waits for input
	outcomeHandedOff                // another runner serves it
)

func (r *runner) serveRequests(k *shardConn, x *exchange, at slotID) outcome {
	c := r.conn
	for {
		if x == nil && c.next < c.end {
			complete, ok := c.codec.parseHead(c)
			if !ok {
				return outcomeClose
			}
			if complete {
				if x = c.codec.beginExchange(c); x == nil {
					return outcomeClose
				}
				at = slotFor(x.request.Method, x.request.RequestURI)
				if how, parted := r.dispatch(k, x, at); parted {
					return how
				}
			}
		}
		if x != nil {
			if !r.serveExchange(k, x, at) {
				return outcomeClose
			}
			if x.resp.hijacked.Load() != nil {
				return outcomeClose
			}
			x, c.resumedHead = nil, nil
			c.codec.nextRequest(c)
			if c.requestStart = (time.Time{}); c.readTimeout > 0 {
				c.requestStart = time.Now()
			}
			if k.isNew.Load() {
				k.isNew.Store(false)
			}
			continue
		}
		if len(c.out) > 0 && c.flush() != nil {
			return outcomeClose
		}
		switch err := c.receive(k); {
		case err == nil:
		case !errors.Is(err, poll.ErrAgain):
			switch {
			case c.next == c.end:
			case errors.Is(err, io.EOF):
				c.refuse(http.StatusBadRequest, "incomplete request head")
			default:
				c.reportRefusal(http.StatusBadRequest, 0)
			}
			return outcomeClose
		case c.park(k):
			// Shutdown may have checked k just before it began to wait.
			if !r.shard.group.server.keepsConnections() && k.claimForClosing() {
				_ = k.Close()
			}
			return outcomeWaits
		default:
			c.attach(k)
		}
	}
}

// dispatch decides which goroutine runs a request's handler. parted reports whether the runner has
// left k, and how is the outcome. If the earlier responses of a connection cannot be sent, it is
// over: its handler does not run at all.
func (r *runner) dispatch(k *shardConn, x *exchange, at slotID) (how outcome, parted bool) {
	c, leads := r.conn, r.leads()
	if r.turnCount++; leads && r.runsOnLoop(x, at) || !leads && r.turnCount <= turnRequests {
		return 0, false
	}
	if len(c.out) > 0 && c.flush() != nil {
		return outcomeClose, true
	}
	if r.leads() { // the flush may have cost the lead
		r.handOff(k, x, at)
		return outcomeHandedOff, true
	}
	if r.turnCount > turnRequests {
		r.turnCount = 0
		runtime.Gosched()
	}
	return 0, false
}

// runsOnLoop reports whether a request's handler runs on the loop. It does not if it would have to
// wait for the request's body, or if its client has used up its turn.
func (r *runner) runsOnLoop(x *exchange, at slotID) bool {
	if r.turnCount > turnRequests || !x.body.hasArrived() {
		return false
	}
	switch r.conn.dispatch {
	case OnLoop:
		return true
	case OwnGoroutine:
		return false
	}
	g := r.shard.group
	return g.predictor.at(at).isQuick() && !g.guard.outage.Load()
}

// serveExchange runs a handler, on the loop or off it. It times all runs off the loop, and some
// runs on it.
func (r *runner) serveExchange(k *shardConn, x *exchange, id slotID) bool {
	c, at := r.conn, r.shard.group.predictor.at(id)
	if !r.enterHandler(id) {
		if len(c.out) > 0 && c.flush() != nil { // the stall guard does not watch this handler
			return false
		}
		return r.timeExchange(x, at)
	}
	if len(c.out) > 0 && r.gateOutput(k) != nil {
		return false
	}
	if !at.addTrust() {
		r.shard.group.guard.checkSoon()
	}
	if r.runs++; r.runs%sampleEvery == 0 {
		return r.timeExchange(x, at)
	}
	return c.runExchange(x)
}

// gateOutput leaves the responses that wait to the runner that replaces the leader. If the leader
// was replaced since enterHandler, it sends them itself.
func (r *runner) gateOutput(k *shardConn) error {
	r.shard.closeGate(r.conn, k)
	if r.leads() {
		return nil
	}
	return r.conn.flush()
}

func (r *runner) timeExchange(x *exchange, at *slot) bool {
	start := time.Now()
	reuse := r.conn.runExchange(x)
	at.learn(time.Since(start))
	return reuse
}

// leads reports whether the runner is its shard's leader and is serving.
func (r *runner) leads() bool { return r.token != 0 && r.shard.word.Load() == r.token }

// handOff gives k and its current request to another runner.
func (r *runner) handOff(k *shardConn, x *exchange, at slotID) {
	r.handOffs++
	other, fresh := r.shard.freeRunner()
	other.conn, r.conn = r.conn, other.conn
	other.conn.runner, r.conn.runner = other, r
	other.start(job{k, x, at}, fresh)
}

// now returns the time, or for a leader the time when the loop reported what it serves. Reading the
// clock for each request would cost a hundredth of a small request, and a runner that leads is not
// late.
func (r *runner) now() instant {
	if r.leads() {
		return r.reportedAt
	}
	return r.shard.group.now()
}

func (r *runner) start(j job, fresh bool) {
	if fresh {
		go r.run(j)
		return
	}
	r.work <- j
}

// startHandOffs yields to the runners that have received requests.
func (r *runner) startHandOffs() {
	r.handOffs = 0
	runtime.Gosched()
}

// giveUpLead is called before a call that may block. If a handler on a loop makes it, another
// runner takes the loop.
func (c *conn) giveUpLead() {
	r := c.runner
	if r == nil || r.token == 0 {
		return
	}
	r.shard.takeLead(r.token)
}

// attach makes c serve k.
func (c *conn) attach(k *shardConn) {
	p := k.place.config
	if c.serveConfig != p {
		c.serveConfig, c.ctx = p, p.baseContext
	}
	c.setSendTimeout(p.defaultSendTimeout)
	c.nc, c.transport = k, k
	c.template.RemoteAddr = k.remote
	c.readDeadline = unknownDeadline()
	c.mayHaveInput = true
	k.servedBy = c
	if c.readTimeout > 0 {
		c.requestStart = time.Now()
	}
	if h := k.partialHead; h != nil {
		c.in, c.next, c.end = h.in[:cap(h.in)], 0, len(h.in)
		c.request, c.requestStart = h.request, h.requestStart
		if h.params != nil {
			c.fcgi.Request = *h.params
		}
		c.resumedHead, k.partialHead = h, nil
	}
}

// receive reads what has arrived on k. It returns poll.ErrAgain if nothing more has arrived. A read
// that did not fill the buffer shows this without a system call: the loop reports input that
// arrives later.
func (c *conn) receive(k *shardConn) error {
	if !c.mayHaveInput {
		return poll.ErrAgain
	}
	if c.next == c.end {
		c.next, c.end = 0, 0
	}
	if c.end == len(c.in) {
		c.makeRoom()
	}
	room := c.in[c.end:]
	n, err := poll.Recv(int(k.fd), room)
	if err != nil {
		return err
	}
	if n == 0 {
		return io.EOF
	}
	c.end += n
	c.mayHaveInput = n == len(room) || k.inputEnded.Load()
	return nil
}

// park makes k wait for a request or for the rest of a head, of which it keeps what has arrived. It
// reports false if more input has arrived by now.
func (c *conn) park(k *shardConn) bool {
	var deadline instant
	switch {
	case c.next < c.end || c.fcgi.Pending():
		k.partialHead = c.savePartialHead(k)
		deadline = k.group().instant(k.partialHead.requestStart.Add(c.headTimeout))
	case k.isNew.Load():
		deadline = k.opened + instant(c.headTimeout)
	case c.idleTimeout > 0:
		deadline = c.runner.now() + instant(c.idleTimeout)
	}
	k.setWaitDeadline(deadline)
	k.servedBy = nil
	c.detach()
	return k.park()
}

// savePartialHead moves the part of a head that has arrived out of c. The memory that a waiting
// connection holds is in proportion to what its client has sent.
func (c *conn) savePartialHead(k *shardConn) *partialHead {
	p := c.resumedHead // a head that arrives in many pieces reuses it
	if p == nil {
		p = new(partialHead)
	}
	p.request, p.requestStart = c.request, c.requestStart
	if !c.fcgi.Pending() {
		p.params = nil // the request was aborted
	} else {
		if p.params == nil {
			p.params = new(fcgi.Request)
		}
		*p.params = c.fcgi.Request
	}
	switch {
	case c.request.Size == 0 && !c.isOwnBuffer(c.in): // the head was partial before
		copy(c.in, c.in[c.next:c.end])
		p.in = c.in[:c.end-c.next]
		c.in, c.next, c.end = c.inBuffer, 0, 0
	default:
		p.in = append(make([]byte, 0, max(leastPartial, 2*(c.end-c.next))), c.in[c.next:c.end]...)
	}
	c.request, c.fcgi.Request = http1.Request{}, fcgi.Request{}
	switch {
	case k.isNew.Load():
		p.requestStart = k.group().epoch.Add(time.Duration(k.opened))
	case p.requestStart.IsZero():
		p.requestStart = time.Now()
	}
	return p
}

// detach prepares c for another connection.
func (c *conn) detach() {
	c.resumedHead = nil
	c.reset()
}

// isOwnBuffer reports whether in is the buffer that the runner keeps.
func (c *conn) isOwnBuffer(in []byte) bool { return &in[0] == &c.inBuffer[0] }
