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

// turnRequests is how many requests of one client a runner serves before others have their turn: a
// client that sends without end is moved to a goroutine of its own, which then yields as often. Without
// it two such clients keep all others of their loops waiting for as long as the watcher lets them.
const turnRequests = 64

// runner is a goroutine that serves sockets, with a conn of its own to do it with.
// One runner of each shard leads: it listens to the shard's loop and serves what is
// ready, running handlers itself. The others run handlers that were expected to
// take long, or lead no more because theirs did; then they wait for work.
type runner struct {
	shard    *shard
	conn     *conn
	work     chan job
	sequence uint64 // of what it served as leader
	token    uint64 // not zero while it serves as leader; see shard.word
	runs     uint64 // of handlers on the loop
	turn     int    // requests of the sock that it serves, since it began to
	hygiene

	handedOver int     // requests since it last let those begin
	heard      instant // when what it serves as leader was reported
}

// job is what an idle runner is woken for: to lead, or to serve a sock from the
// request on that its new conn is at.
type job struct {
	sock    *sock
	request *exchange
	slot    slotID
}

// onShard is what a conn has more that belongs to a runner.
type onShard struct {
	runner *runner
	more   bool // there may be more to read

	resumed *partial // what the head that is being read was resumed from
}

func newRunner(s *shard) *runner {
	r := &runner{shard: s, conn: newConn(shardInSize), work: make(chan job, 1)}
	r.conn.runner = r
	r.conn.gathers = true
	return r
}

// run works until nobody needs this runner any more.
func (r *runner) run(j job) {
	forgetLabels() // of the handler that it was started in
	returned := false
	defer func() {
		if !returned { // runtime.Goexit, in a handler; its sock was dealt with
			r.shard.replace(r)
		}
	}()
	for {
		if j.sock == nil {
			r.lead()
		} else {
			r.serve(j.sock, j.request, j.slot)
			r.look(time.Now())
		}
		if r.locked {
			break
		}
		var ok bool
		if j, ok = await(&r.shard.idle, r, r.work); !ok {
			break
		}
	}
	returned = true
}

// lead listens to the loop until another runner does, or the shard was stopped.
func (r *runner) lead() {
	s := r.shard
	r.sequence, r.heard = s.word.Load()>>sequenceShift, s.group.now()
	for {
		for s.at < len(s.events) {
			e := s.events[s.at]
			s.at++
			if k := s.group.socks.at(e.ID); k != nil && k.home.shard == s && k.claim(e) {
				if !r.serveAsLeader(k) {
					return
				}
				if r.handedOver >= handOverBatch {
					r.letBegin()
				}
			}
		}
		if r.handedOver > 0 {
			r.letBegin()
		}
		if !s.listen() {
			return
		}
		r.heard = s.group.instant(s.heard)
		if r.look(s.heard) {
			s.resign()
			return
		}
	}
}

// serveAsLeader serves k and reports whether the runner still leads.
func (r *runner) serveAsLeader(k *sock) bool {
	r.begin()
	r.serve(k, nil, noSlot)
	token := r.token
	r.token = 0
	return r.shard.word.CompareAndSwap(token, r.sequence<<sequenceShift)
}

// begin stores the token of a leader that is about to serve a sock, and then wakes the watcher if it sleeps. The watcher marks
// itself as asleep and then looks at the words: one of the two sees what the other has stored, so that no handler runs on a loop
// that nobody watches.
func (r *runner) begin() {
	r.sequence++
	r.token = r.sequence<<sequenceShift | servingBit
	r.shard.word.Store(r.token)
	r.shard.group.watcher.wake()
}

// enter names the slot of the handler that is about to run in the shard's word. It reports false if
// the runner does not lead, or leads no more.
func (r *runner) enter(at slotID) bool {
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

// serve answers what arrives on k until nothing more has, or x on another runner's
// behalf and then the rest. Whatever happens, k is waiting or closed afterwards, or
// another runner's.
func (r *runner) serve(k *sock, x *exchange, at slotID) {
	settled := false
	r.turn = 0
	defer func() {
		if !settled {
			r.conn.abort(recover())
			forgetLabels()
			r.conn.leave()
			_ = k.Close()
		}
	}()
	if x == nil {
		r.conn.attach(k)
	}
	switch r.converse(k, x, at) {
	case over:
		r.conn.leave()
		_ = k.Close()
	case asleep, elsewhere:
	}
	forgetLabels()
	settled = true
}

// outcome is how a runner parted from a sock.
type outcome uint8

const (
	over      outcome = iota // it is to be closed
	asleep                   // it waits for input
	elsewhere                // another runner has it
)

func (r *runner) converse(k *sock, x *exchange, at slotID) outcome {
	c := r.conn
	for {
		if x == nil && c.next < c.end {
			complete, ok := c.protocol.head(c)
			if !ok {
				return over
			}
			if complete {
				if x = c.protocol.begin(c); x == nil {
					return over
				}
				at = slotFor(x.request.Method, x.request.RequestURI)
				if how, parted := r.dispatch(k, x, at); parted {
					return how
				}
			}
		}
		if x != nil {
			if !r.exchange(k, x, at) {
				return over
			}
			if x.resp.taken.Load() != nil {
				return over
			}
			x, c.resumed = nil, nil
			c.protocol.next(c)
			if c.began = (time.Time{}); c.read > 0 {
				c.began = time.Now()
			}
			if k.fresh.Load() {
				k.fresh.Store(false)
			}
			continue
		}
		if len(c.out) > 0 && c.flush() != nil {
			return over
		}
		switch err := c.receive(k); {
		case err == nil:
		case !errors.Is(err, poll.ErrAgain):
			switch {
			case c.next == c.end:
			case errors.Is(err, io.EOF):
				c.refuse(http.StatusBadRequest, "head cut off")
			default:
				c.report(http.StatusBadRequest, 0)
			}
			return over
		case c.detach(k):
			// Shutdown may have looked at k just before it began to wait.
			if !r.shard.group.server.reuses() && k.claimForClosing() {
				_ = k.Close()
			}
			return asleep
		default:
			c.attach(k)
		}
	}
}

// dispatch decides who runs a request's handler. It reports whether the runner has parted from k, and
// how. A connection whose earlier responses cannot be sent is over: its handler does not run at all, on
// a loop least of all.
func (r *runner) dispatch(k *sock, x *exchange, at slotID) (how outcome, parted bool) {
	c, leads := r.conn, r.leads()
	if r.turn++; leads && r.runsOnLoop(x, at) || !leads && r.turn <= turnRequests {
		return 0, false
	}
	if len(c.out) > 0 && c.flush() != nil {
		return over, true
	}
	if r.leads() { // to flush may have cost the lead
		r.handOver(k, x, at)
		return elsewhere, true
	}
	if r.turn > turnRequests {
		r.turn = 0
		runtime.Gosched()
	}
	return 0, false
}

// runsOnLoop reports whether a request's handler shall run on the loop. It shall not if it would have to
// wait for the request's body, or if its client has had its turn.
func (r *runner) runsOnLoop(x *exchange, at slotID) bool {
	if r.turn > turnRequests || !x.body.hasArrived() {
		return false
	}
	switch r.conn.dispatch {
	case OnLoop:
		return true
	case OwnGoroutine:
		return false
	}
	g := r.shard.group
	return g.predictor.at(at).quick() && !g.watcher.outage.Load()
}

// exchange runs a handler, on the loop or off it, and notes how long it took. All
// runs off the loop are timed, and some on it.
func (r *runner) exchange(k *sock, x *exchange, id slotID) bool {
	c, at := r.conn, r.shard.group.predictor.at(id)
	if !r.enter(id) {
		if len(c.out) > 0 && c.flush() != nil { // nobody watches this handler
			return false
		}
		return r.timed(x, at)
	}
	if len(c.out) > 0 && r.sealOutput(k) != nil {
		return false
	}
	if !at.trusted() {
		r.shard.group.watcher.hurry()
	}
	if r.runs++; r.runs%sampleEvery == 0 {
		return r.timed(x, at)
	}
	return c.exchange(x)
}

// sealOutput keeps the responses that wait for whoever replaces the leader. If that has happened since
// enter, they were not sealed when it did, and are sent here.
func (r *runner) sealOutput(k *sock) error {
	r.shard.seal(r.conn, k)
	if r.leads() {
		return nil
	}
	return r.conn.flush()
}

func (r *runner) timed(x *exchange, at *slot) bool {
	start := time.Now()
	reuse := r.conn.exchange(x)
	at.learn(time.Since(start))
	return reuse
}

// leads reports whether the runner is its shard's leader, serving.
func (r *runner) leads() bool { return r.token != 0 && r.shard.word.Load() == r.token }

// handOver gives k, and the request that it is at, to another runner.
func (r *runner) handOver(k *sock, x *exchange, at slotID) {
	r.handedOver++
	other, fresh := r.shard.idleRunner()
	other.conn, r.conn = r.conn, other.conn
	other.conn.runner, r.conn.runner = other, r
	other.start(job{k, x, at}, fresh)
}

// now is the time, or for a leader when what it serves was reported: a look at the clock for each request is a hundredth of what a
// small one costs, and a loop that has kept its lead is not late.
func (r *runner) now() instant {
	if r.leads() {
		return r.heard
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

// letBegin lets the runners begin that requests were handed to.
func (r *runner) letBegin() {
	r.handedOver = 0
	runtime.Gosched()
}

// giveUpLead is called by whatever is about to wait. If that is in a handler that
// runs on a loop, another runner takes the loop.
func (c *conn) giveUpLead() {
	r := c.runner
	if r == nil || r.token == 0 {
		return
	}
	r.shard.takeLead(r.token)
}

// attach makes k the connection that c serves.
func (c *conn) attach(k *sock) {
	p := k.home.plan
	if c.plan != p {
		c.plan, c.ctx = p, p.base
	}
	c.setSendTimeout(p.stallTime)
	c.nc, c.link = k, k
	c.template.RemoteAddr = k.remote
	c.readDeadline = unknownDeadline()
	c.more = true
	k.runs = c
	if c.read > 0 {
		c.began = time.Now()
	}
	if h := k.partial; h != nil {
		c.in, c.next, c.end = h.in[:cap(h.in)], 0, len(h.in)
		c.request, c.began = h.request, h.began
		if h.params != nil {
			c.params.Request = *h.params
		}
		c.resumed, k.partial = h, nil
	}
}

// receive reads what has arrived on k. It returns poll.ErrAgain if nothing more
// has, which a read that did not fill the buffer tells beforehand: the loop reports
// what arrives after it.
func (c *conn) receive(k *sock) error {
	if !c.more {
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
	c.more = n == len(room) || k.ended.Load()
	return nil
}

// detach lets k wait, for a request or for the rest of a head, and keeps what there
// is of it. It reports false if there is something to read by now.
func (c *conn) detach(k *sock) bool {
	var deadline instant
	switch {
	case c.next < c.end || c.params.Pending():
		k.partial = c.leavePartial(k)
		deadline = k.group().instant(k.partial.began.Add(c.headTime))
	case k.fresh.Load():
		deadline = k.opened + instant(c.headTime)
	case c.idle > 0:
		deadline = c.runner.now() + instant(c.idle)
	}
	k.waitUntil(deadline)
	k.runs = nil
	c.leave()
	return k.letGo()
}

// leavePartial moves what has arrived of a head out of c. What the connection holds
// while it waits is in proportion to what it has sent.
func (c *conn) leavePartial(k *sock) *partial {
	p := c.resumed // a head that trickles in has one for all its pieces
	if p == nil {
		p = new(partial)
	}
	p.request, p.began = c.request, c.began
	if !c.params.Pending() {
		p.params = nil // of a request that was aborted
	} else {
		if p.params == nil {
			p.params = new(fcgi.Request)
		}
		*p.params = c.params.Request
	}
	switch {
	case c.request.Size == 0 && !c.own(c.in): // it was partial before
		copy(c.in, c.in[c.next:c.end])
		p.in = c.in[:c.end-c.next]
		c.in, c.next, c.end = c.kept, 0, 0
	default:
		p.in = append(make([]byte, 0, max(leastPartial, 2*(c.end-c.next))), c.in[c.next:c.end]...)
	}
	c.request, c.params.Request = http1.Request{}, fcgi.Request{}
	switch {
	case k.fresh.Load():
		p.began = k.group().start.Add(time.Duration(k.opened))
	case p.began.IsZero():
		p.began = time.Now()
	}
	return p
}

// leave makes c ready for another sock.
func (c *conn) leave() {
	c.resumed = nil
	c.reset()
}

// own reports whether a buffer is the one that the runner keeps.
func (c *conn) own(in []byte) bool { return &in[0] == &c.kept[0] }
