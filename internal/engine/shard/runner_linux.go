package shard

import (
	"runtime"
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/engine/reuse"
	"github.com/tarehq/tare/internal/engine/sched"
	"github.com/tarehq/tare/internal/poll"
)

// turnRequests is how many requests of one client a runner serves in a row. A client that sends
// without pause is then moved to a goroutine of its own, which yields as often. Without this limit
// two such clients delay all others of their loops for as long as the stall guard allows.
const turnRequests = 64

// inSize is the input buffer of a connection that is served.
const inSize = 16 << 10

// serveAsLeader serves k, or continues the turn of its session, and reports whether the runner
// still leads.
func (r *runner) serveAsLeader(k *shardConn, isResumed bool) bool {
	isDelayed := false
	r.leader.Begin()
	if h := k.session.Load(); h != nil {
		r.serveSession(h, isResumed)
	} else {
		isDelayed = r.serve(k, nil, sched.NoSlot)
	}
	leads := r.leader.End()
	switch {
	case !isDelayed:
	case leads:
		r.delay(k)
	default: // the responses must not wait
		r.serve(k, nil, sched.NoSlot)
	}
	return leads
}

// serve serves the requests that arrive on k until no more input has arrived. If x is not nil, it
// serves x first, which another runner has handed off, or ends it if it was detached. When serve
// returns, k waits, is closed, is detached, or belongs to another runner, or its responses wait for
// the outbox (isDelayed).
func (r *runner) serve(k *shardConn, x *exchange.Exchange, at sched.SlotID) (isDelayed bool) {
	settled := false
	r.turnCount = 0
	defer func() {
		if !settled {
			k.conn.AbortExchange(recover())
			reuse.ResetLabels()
			r.closeConn(k)
		}
	}()
	if x == nil {
		r.attach(k)
	}
	k.servedBy = &r.leader
	switch r.serveRequests(k, x, at) {
	case outcomeClose:
		r.closeConn(k)
	case outcomeHTTP2:
		settled = true // a handler that ends this goroutine ends its stream only
		h := newShardSession(k, nil)
		h.session.Receive(k.conn.Input())
		k.giveBack()
		r.serveSession(h, false)
	case outcomeDelayed:
		isDelayed = true
	case outcomeDetached:
		settled, k.servedBy = true, nil
		k.conn.BeginDetached(func(x *exchange.Exchange) { k.shard().runners.Run(job{conn: k, request: x}) })
	}
	reuse.ResetLabels()
	settled = true
	return isDelayed
}

func (r *runner) closeConn(k *shardConn) {
	if k.conn.Lingers {
		k.state.set(flagLingers, true)
		k.conn.Linger()
	}
	k.giveBack()
	_ = k.Close()
}

// outcome is what becomes of a connection when its runner leaves it.
type outcome uint8

const (
	outcomeServed   outcome = iota // the runner still serves it
	outcomeClose                   // it must be closed
	outcomeLeft                    // it waits for input, or another runner serves it
	outcomeHTTP2                   // it speaks HTTP/2
	outcomeDelayed                 // its responses wait for the outbox
	outcomeDetached                // its handler has returned, and will end the response later
)

// serveRequests serves x, which another runner has handed off, and then the requests that arrive.
func (r *runner) serveRequests(k *shardConn, x *exchange.Exchange, at sched.SlotID) (how outcome) {
	for ; how == outcomeServed; x = nil {
		if x == nil {
			x, at, how = r.nextRequest(k)
		}
		switch {
		case how != outcomeServed:
		case x != nil:
			how = r.serveRequest(k, x, at)
		default:
			how = r.awaitRequest(k)
		}
	}
	return how
}

// nextRequest returns a request that has arrived, with its slot, or nil if more must be received.
func (r *runner) nextRequest(k *shardConn) (x *exchange.Exchange, at sched.SlotID, how outcome) {
	c := k.conn
	if len(c.Input()) == 0 {
		return nil, at, outcomeServed
	}
	if how, mayBeHTTP2 := r.checkPreface(k); how != outcomeServed || mayBeHTTP2 {
		return nil, at, how
	}
	x, ok := c.Codec.Next(c)
	switch {
	case !ok:
		return nil, at, outcomeClose
	case x == nil:
		return nil, at, outcomeServed
	}
	at = sched.SlotFor(x.Request.Method, x.Request.RequestURI)
	return x, at, r.dispatch(k, x, at)
}

// serveRequest serves a request. If it is the last one, it sends the output or delays it.
func (r *runner) serveRequest(k *shardConn, x *exchange.Exchange, at sched.SlotID) outcome {
	c := k.conn
	isReusable := r.serveExchange(k, x, at)
	switch {
	case c.IsDetached():
		return outcomeDetached
	case !isReusable && len(c.Out) > 0:
		k.endsOutput = true
		if r.mayDelay(k) {
			return outcomeDelayed
		}
		_ = c.Flush()
		return outcomeClose
	case !isReusable:
		return outcomeClose
	}
	c.StartRequest()
	if k.state.has(flagNew) {
		k.state.set(flagNew, false)
		if !k.state.has(flagAdded) {
			r.shard.early.noteServed()
		}
	}
	return outcomeServed
}

// awaitRequest sends the responses of the requests that have arrived, or delays them, and receives
// more.
func (r *runner) awaitRequest(k *shardConn) outcome {
	c := k.conn
	switch {
	case len(c.Out) == 0:
	case !k.mayHaveInput && !c.HasBegun() && r.mayDelay(k):
		return outcomeDelayed
	case c.Flush() != nil || k.endsOutput:
		return outcomeClose
	}
	switch err := k.receiveMore(); {
	case err == nil:
	case err != poll.ErrAgain: //nolint:errorlint // a bare errno
		c.HeadFailed(err)
		return outcomeClose
	case r.waitOnLoop(k) != nil:
		return outcomeClose
	case r.park(k):
		r.closeIfEnding(k)
		return outcomeLeft
	default:
		r.attach(k)
	}
	return outcomeServed
}

// mayDelay reports whether k's responses may wait until others have been served. The leader only
// then adds them to the outbox: until then it may lose the lead.
func (r *runner) mayDelay(k *shardConn) bool {
	c := k.conn
	return r.delays && r.leader.IsServing() && k.tls == nil && len(c.Out) <= outboxMax && c.WriteErr == nil
}

// waitOnLoop makes the loop report input of k, of which nothing more has arrived.
func (r *runner) waitOnLoop(k *shardConn) error {
	if !k.state.has(flagAdded) {
		r.shard.early.noteWaiting()
	}
	return k.addToLoop()
}

// closeIfEnding closes k, which waits, if the server is ending. Shutdown may have checked k just
// before it began to wait.
func (r *runner) closeIfEnding(k *shardConn) {
	if !r.shard.group.server.KeepsConnections() {
		k.closeIfIdle()
	}
}

// dispatch decides which goroutine runs a request's handler: the runner itself if it still serves k.
// If the earlier responses of a connection cannot be sent, it is over: its handler does not run at
// all.
func (r *runner) dispatch(k *shardConn, x *exchange.Exchange, at sched.SlotID) outcome {
	c, leads := k.conn, r.leader.Leads()
	if r.turnCount++; r.turnCount <= turnRequests && (!leads || x.Body.HasArrived(true) && r.runsOnLoop(k, at)) {
		return outcomeServed // a handler on the loop would otherwise wait for the request's body
	}
	if len(c.Out) > 0 && c.Flush() != nil {
		return outcomeClose
	}
	if r.leader.Leads() { // the flush may have cost the lead
		r.handOff(job{conn: k, request: x, slot: at})
		return outcomeLeft
	}
	if r.turnCount > turnRequests {
		r.turnCount = 0
		runtime.Gosched()
	}
	return outcomeServed
}

func (r *runner) handOff(j job) {
	r.handOffs++
	r.shard.runners.Run(j)
}

// runsOnLoop reports whether a handler runs on the loop if it need not wait for its request's body.
func (r *runner) runsOnLoop(k *shardConn, at sched.SlotID) bool {
	switch k.config().Dispatch {
	case OnLoop:
		return true
	case OwnGoroutine:
		return false
	}
	return r.shard.group.scheduler.IsQuick(at)
}

// serveExchange runs a handler, on the loop or off it. It times all runs off the loop, and some
// runs on it.
func (r *runner) serveExchange(k *shardConn, x *exchange.Exchange, at sched.SlotID) bool {
	c := k.conn
	if c.IsDetached() {
		return c.EndDetached(x)
	}
	if !r.leader.Enter(at) {
		if len(c.Out) > 0 && c.Flush() != nil { // the stall guard does not watch this handler
			return false
		}
		return r.timeExchange(c, x, at)
	}
	if len(c.Out) > 0 && r.gateOutput(k) != nil {
		return false
	}
	if r.leader.CountRun(at) {
		return r.timeExchange(c, x, at)
	}
	return c.RunExchange(x)
}

// gateOutput leaves the responses that wait to the runner that replaces the leader. If the leader
// was replaced since Enter, it sends them itself.
func (r *runner) gateOutput(k *shardConn) error {
	k.openGate()
	k.conn.Gate.Close(k.conn.Out, k)
	r.shard.gatedConn.Store(k.conn)
	if r.leader.Leads() {
		return nil
	}
	return k.conn.Flush()
}

// openGate opens the gate of k's conn, and drops what was sent through it. The next leader of
// another shard may have sent it: that finds the conn whose gate its shard has closed last, and a
// connection of this shard may have that conn by now.
func (k *shardConn) openGate() {
	if sent := k.conn.Gate.Open(); sent > 0 {
		k.conn.DropSent(sent)
	}
}

func (r *runner) timeExchange(c *exchange.Conn, x *exchange.Exchange, at sched.SlotID) bool {
	start := r.shard.group.now()
	reuse := c.RunExchange(x)
	r.learn(at, start)
	return reuse
}

// learn records the duration of a handler that has ended.
func (r *runner) learn(at sched.SlotID, start instant) {
	r.endedAt = r.shard.group.now()
	r.shard.group.scheduler.Learn(at, time.Duration(r.endedAt-start))
}

// MayBlock implements h2.Host. If a handler on a loop makes a call that may block, another runner
// takes the loop.
func (r *runner) MayBlock() { r.leader.MayBlock() }

// attach makes the runner serve k, and lends k a conn unless it has kept one.
func (r *runner) attach(k *shardConn) {
	switch {
	case k.conn == nil:
		k.conn = k.config().conns.Get()
		k.conn.Attach(k, k.remote)
	case k.state.has(flagHead):
		k.state.set(flagHead, false)
		k.group().server.PartialHeads.Add(-1)
	}
	k.conn.Template.TLS = k.attachTLS()
	k.servedBy, k.mayHaveInput = &r.leader, true
}

// receiveMore reads what has arrived. It returns poll.ErrAgain if nothing more has arrived. A read
// that did not fill the buffer shows this without a system call: the loop reports input that
// arrives later. A tls.Conn may hold more, and makes no system call to find out.
func (k *shardConn) receiveMore() error {
	if !k.mayHaveInput {
		return poll.ErrAgain
	}
	c := k.conn
	room := c.Room()
	n, err := k.receive(room)
	if err != nil {
		return err
	}
	c.Received(n)
	k.mayHaveInput = n == len(room) || k.state.has(flagEnded) || k.tls != nil
	return nil
}

// park makes k wait for a request or for the rest of a head, for which it keeps a conn. It reports
// false if more input has arrived by now, or if no loop would report input.
func (r *runner) park(k *shardConn) bool {
	c := k.conn
	var deadline instant
	switch {
	case c.HasBegun():
		deadline = k.keepHead()
	case k.state.has(flagNew):
		deadline = k.ready() + instant(c.Config.HeadTimeout)
	case k.tls != nil && !k.tls.hasInput: // parts of records do not extend the idle timeout
		deadline = k.deadline(waitInput)
	case c.Config.IdleTimeout > 0:
		now := r.reportedAt // reading the clock would cost a hundredth of a small request
		if !r.leader.Leads() {
			now = k.group().now()
		}
		deadline = now + instant(c.Config.IdleTimeout)
	}
	k.setWaitDeadline(deadline)
	if !k.state.has(flagHead) {
		k.giveBack()
	}
	return r.leave(k, false)
}

// leave ends what attach began. If the shard is overloaded, every other connection moves to another
// shard. isDelayed reports that k was in the outbox. leave reports false if more input has arrived,
// or if no loop reports input: the runner then tries once more to add the connection to a loop.
func (r *runner) leave(k *shardConn, isDelayed bool) bool {
	k.servedBy = nil
	if to := r.shard.load.relief.Load(); to != nil {
		mayMove := r.leader.IsServing() && r.eventsLeft%2 == 1
		if isDelayed {
			mayMove = r.shard.outbox.sent%2 == 0
		}
		if mayMove && !k.moveTo(to) {
			return false
		}
	}
	return k.park()
}

// keepHead makes k keep the part of a head that has arrived. It returns the head's deadline.
func (k *shardConn) keepHead() (deadline instant) {
	c := k.conn
	switch {
	case k.state.has(flagNew):
		c.RequestStart = k.group().epoch.Add(time.Duration(k.ready()))
	case c.RequestStart.IsZero():
		c.RequestStart = time.Now()
	}
	deadline = k.group().instant(c.RequestStart.Add(c.Config.HeadTimeout))
	c.Shrink()
	k.state.set(flagHead, true)
	k.group().server.PartialHeads.Add(1)
	return deadline
}

// giveBack ends what attach began.
func (k *shardConn) giveBack() {
	c := k.conn
	k.conn = nil
	k.config().conns.Put(c)
}
