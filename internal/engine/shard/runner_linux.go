package shard

import (
	"errors"
	"io"
	"net/http"
	"runtime"
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/engine/h2"
	"github.com/tarehq/tare/internal/engine/predict"
	"github.com/tarehq/tare/internal/engine/reuse"
	"github.com/tarehq/tare/internal/poll"
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
	conn      *exchange.Conn
	work      chan job
	sequence  uint64 // number of what it serves as leader
	token     uint64 // not zero while it serves as leader; see shard.word
	runs      uint64 // handlers run on the loop
	turnCount int    // requests of the current connection served in a row
	// while it leads: events that the loop has reported and that it has not looked at
	eventsLeft int

	delays  bool       // responses may wait in the outbox
	delayed *shardConn // whose responses, in conn, wait for the outbox

	threadCheck reuse.ThreadCheck

	handOffs   int     // hand-offs since startHandOffs
	endedAt    instant // when the last handler that was timed ended; 0 if none was
	reportedAt instant // when the loop reported what it serves as leader

	// State of the connection that the runner serves.
	mayHaveInput bool         // there may be more to read
	resumedHead  *partialHead // the partialHead from which the current head was resumed

	streamConn *exchange.Conn // serves the HTTP/2 streams that the runner runs; made when needed
}

// job is the work of a free runner: to run the handler of a stream, to serve conn, beginning with
// the request that its new conn holds, or else to lead. A leader first continues the turn of a
// session, if the last leader had to leave it.
type job struct {
	conn    *shardConn
	request *exchange.Exchange
	stream  *h2.Stream
	slot    predict.SlotID
	turn    *shardSession
}

func newRunner(s *shard) *runner {
	r := &runner{shard: s, conn: exchange.NewConn(inSize), work: make(chan job, 1)}
	r.conn.Batches = true
	return r
}

// run works until the runner is no longer needed.
func (r *runner) run(j job) {
	reuse.ResetLabels() // of the handler in whose goroutine it was started
	returned := false
	defer func() {
		if !returned { // runtime.Goexit in a handler; serve has closed the connection
			r.shard.runnerExited(r)
		}
	}()
	for {
		switch {
		case j.stream != nil:
			r.runStream(j.stream, j.slot)
			r.checkThread()
		case j.conn != nil:
			r.serveConn(j)
			r.checkThread()
		default:
			r.lead(j.turn)
		}
		if r.threadCheck.Locked {
			break
		}
		var ok bool
		if j, ok = reuse.AwaitWork(&r.shard.freeRunners, r, r.work); !ok {
			break
		}
	}
	returned = true
}

// serveConn serves a connection that another goroutine has handed off.
func (r *runner) serveConn(j job) {
	if h := j.conn.session.Load(); h != nil {
		r.serveSession(h, false)
		return
	}
	r.serve(j.conn, j.request, j.slot)
}

// serve serves the requests that arrive on k until no more input has arrived. If x is not nil, it
// serves x first, which another runner has handed off. When serve returns, k waits, is closed, or
// belongs to another runner.
func (r *runner) serve(k *shardConn, x *exchange.Exchange, at predict.SlotID) {
	settled := false
	r.turnCount = 0
	defer func() {
		if !settled {
			r.conn.AbortExchange(recover())
			reuse.ResetLabels()
			r.closeConn(k)
		}
	}()
	if x == nil {
		r.attach(k)
	}
	switch r.serveRequests(k, x, at) {
	case outcomeClose:
		r.closeConn(k)
	case outcomeHTTP2:
		settled = true // a handler that ends this goroutine ends its stream only
		r.serveSession(r.beginSession(k), false)
	case outcomeDelayed:
		r.delayed = k
	case outcomeWaits, outcomeHandedOff:
	}
	reuse.ResetLabels()
	settled = true
}

// closeConn closes the connection to which the runner's conn is attached.
func (r *runner) closeConn(k *shardConn) {
	if r.conn.Lingers {
		g := k.group()
		g.lingering.Store(k, g.now())
		r.conn.Linger()
		g.lingering.Delete(k)
	}
	r.detach()
	_ = k.Close()
}

// outcome is what becomes of a connection when its runner leaves it.
type outcome uint8

const (
	outcomeServed    outcome = iota // the runner still serves it
	outcomeClose                    // it must be closed
	outcomeWaits                    // it waits for input
	outcomeHandedOff                // another runner serves it
	outcomeHTTP2                    // it speaks HTTP/2
	outcomeDelayed                  // its responses, in the runner's conn, wait for the outbox
)

func (r *runner) serveRequests(k *shardConn, x *exchange.Exchange, at predict.SlotID) outcome {
	c := r.conn
	for {
		how, mayBeHTTP2 := r.checkPreface(k)
		if how != outcomeServed {
			return how
		}
		if x == nil && c.Next < c.End && !mayBeHTTP2 {
			var ok bool
			if x, ok = c.Codec.Next(c); !ok {
				return outcomeClose
			}
			if x != nil {
				at = predict.SlotFor(x.Request.Method, x.Request.RequestURI)
				if how, parted := r.dispatch(k, x, at); parted {
					return how
				}
			}
		}
		if x != nil {
			if !r.serveExchange(k, x, at) {
				if len(c.Out) > 0 && !x.Response.IsHijacked() {
					c.EndsOutput = true
					if r.mayDelay(k) {
						return outcomeDelayed
					}
					_ = c.Flush()
				}
				return outcomeClose
			}
			x = nil
			r.nextRequest(k)
			continue
		}
		if how := r.endRequests(k); how != outcomeServed {
			return how
		}
		switch err := r.receive(k); {
		case err == nil:
		case !errors.Is(err, poll.ErrAgain):
			switch {
			case c.Next == c.End:
			case errors.Is(err, io.EOF):
				c.Refuse(http.StatusBadRequest, "incomplete request head")
			default:
				c.ReportRefusal(http.StatusBadRequest, 0)
			}
			return outcomeClose
		case r.waitOnLoop(k) != nil:
			return outcomeClose
		case r.park(k):
			r.closeIfEnding(k)
			return outcomeWaits
		default:
			r.attach(k)
		}
	}
}

// nextRequest prepares for a request after the one that was served.
func (r *runner) nextRequest(k *shardConn) {
	c := r.conn
	r.resumedHead = nil
	if c.RequestStart = (time.Time{}); c.Config.ReadTimeout > 0 {
		c.RequestStart = time.Now()
	}
	if k.isNew.Load() {
		k.isNew.Store(false)
		r.shard.early.noteServed(k)
	}
}

// endRequests sends the responses of all requests that have arrived, or delays them. It returns
// outcomeServed if the runner must receive more.
func (r *runner) endRequests(k *shardConn) outcome {
	c := r.conn
	switch {
	case len(c.Out) == 0:
		return outcomeServed
	case !r.mayHaveInput && c.Next == c.End && !c.HasPartial && r.mayDelay(k):
		return outcomeDelayed
	case c.Flush() != nil || c.EndsOutput:
		return outcomeClose
	}
	return outcomeServed
}

// waitOnLoop makes the loop report input of k, of which nothing more has arrived.
func (r *runner) waitOnLoop(k *shardConn) error {
	if !k.isAdded.Load() {
		r.shard.early.noteWaiting()
	}
	return k.addToLoop()
}

// closeIfEnding closes k, which waits, if the server is ending. Shutdown may have checked k just
// before it began to wait.
func (r *runner) closeIfEnding(k *shardConn) {
	if !r.shard.group.server.KeepsConnections() && k.claimForClosing() {
		_ = k.Close()
	}
}

// dispatch decides which goroutine runs a request's handler. parted reports whether the runner has
// left k, and how is the outcome. If the earlier responses of a connection cannot be sent, it is
// over: its handler does not run at all.
func (r *runner) dispatch(k *shardConn, x *exchange.Exchange, at predict.SlotID) (how outcome, parted bool) {
	c, leads := r.conn, r.leads()
	if r.turnCount++; r.turnCount <= turnRequests && (!leads || x.Body.HasArrived() && r.runsOnLoop(k, at)) {
		return 0, false // a handler on the loop would otherwise wait for the request's body
	}
	if len(c.Out) > 0 && c.Flush() != nil {
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

// runsOnLoop reports whether a handler runs on the loop if it need not wait for its request's body.
func (r *runner) runsOnLoop(k *shardConn, at predict.SlotID) bool {
	switch k.config().Dispatch {
	case OnLoop:
		return true
	case OwnGoroutine:
		return false
	}
	g := r.shard.group
	return g.predictor.At(at).IsQuick() && !g.guard.outage.Load()
}

// serveExchange runs a handler, on the loop or off it. It times all runs off the loop, and some
// runs on it.
func (r *runner) serveExchange(k *shardConn, x *exchange.Exchange, id predict.SlotID) bool {
	c, at := r.conn, r.shard.group.predictor.At(id)
	if !r.enterHandler(id) {
		if len(c.Out) > 0 && c.Flush() != nil { // the stall guard does not watch this handler
			return false
		}
		return r.timeExchange(x, at)
	}
	if len(c.Out) > 0 && r.gateOutput(k) != nil {
		return false
	}
	if !at.AddTrust() {
		r.shard.group.guard.checkSoon()
	}
	if r.runs++; r.runs%predict.SampleEvery == 0 {
		return r.timeExchange(x, at)
	}
	return c.RunExchange(x)
}

// gateOutput leaves the responses that wait to the runner that replaces the leader. If the leader
// was replaced since enterHandler, it sends them itself.
func (r *runner) gateOutput(k *shardConn) error {
	r.shard.closeGate(r.conn, k)
	if r.leads() {
		return nil
	}
	return r.conn.Flush()
}

func (r *runner) timeExchange(x *exchange.Exchange, at *predict.Slot) bool {
	start := r.shard.group.now()
	reuse := r.conn.RunExchange(x)
	r.endedAt = r.shard.group.now()
	at.Learn(time.Duration(r.endedAt - start))
	return reuse
}

// leads reports whether the runner is its shard's leader and is serving.
func (r *runner) leads() bool { return r.token != 0 && r.shard.word.Load() == r.token }

// attach makes r's conn serve k.
func (r *runner) attach(k *shardConn) {
	c, p := r.conn, k.config().Exchanges
	if old := c.Config; old != p {
		c.Config = p
		if c.Traits = p.Protocol.Traits; old != nil && old.Protocol.Name != p.Protocol.Name {
			c.Codec = nil
		}
	}
	if c.Codec == nil {
		c.SetCodec(p.Protocol.NewCodec())
	}
	if len(c.Out) == 0 { // else responses that waited in the outbox have a timeout
		c.SetSendTimeout(p.DefaultSendTimeout)
	}
	c.Connection, c.Transport = k, k
	c.Template.RemoteAddr, c.Template.TLS = k.remote, k.attachTLS()
	c.ReadDeadline = exchange.UnknownDeadline()
	r.mayHaveInput = true
	k.servedBy = r
	if c.Config.ReadTimeout > 0 {
		c.RequestStart = time.Now()
	}
	if h := k.partialHead; h != nil {
		c.In, c.Next, c.End = h.in[:cap(h.in)], 0, len(h.in)
		c.RequestStart = h.requestStart
		c.HasPartial = len(h.in) == 0
		h.codec = c.SetCodec(h.codec)
		r.resumedHead, k.partialHead = h, nil
		k.hasPartialHead.Store(false)
		k.group().server.PartialHeads.Add(-1)
	}
}

// receive reads what has arrived on k. It returns poll.ErrAgain if nothing more has arrived. A read
// that did not fill the buffer shows this without a system call: the loop reports input that
// arrives later. A tls.Conn may hold more, and makes no system call to find out.
func (r *runner) receive(k *shardConn) error {
	if !r.mayHaveInput {
		return poll.ErrAgain
	}
	c := r.conn
	if c.Next == c.End {
		c.Next, c.End = 0, 0
	}
	if c.End == len(c.In) {
		c.MakeRoom()
	}
	room := c.In[c.End:]
	n, err := k.receive(room)
	if err != nil {
		return err
	}
	if n == 0 {
		return io.EOF
	}
	c.End += n
	r.mayHaveInput = n == len(room) || k.inputEnded.Load() || k.tls != nil
	return nil
}

// park makes k wait for a request or for the rest of a head, of which it keeps what has arrived. It
// reports false if more input has arrived by now, or if no loop would report input.
func (r *runner) park(k *shardConn) bool {
	c := r.conn
	var deadline instant
	switch {
	case c.Next < c.End || c.HasPartial:
		k.partialHead = r.savePartialHead(k)
		k.hasPartialHead.Store(true)
		k.group().server.PartialHeads.Add(1)
		deadline = k.group().instant(k.partialHead.requestStart.Add(c.Config.HeadTimeout))
	case k.isNew.Load():
		deadline = k.ready() + instant(c.Config.HeadTimeout)
	case k.hasIdled():
		deadline = k.waitDeadline()
	case c.Config.IdleTimeout > 0:
		deadline = r.now() + instant(c.Config.IdleTimeout)
	}
	k.setWaitDeadline(deadline)
	k.servedBy = nil
	r.detach()
	if to := r.moveTarget(); to != nil && !k.moveTo(to) {
		return false // the runner tries once more to add it to a loop
	}
	return k.park()
}

// savePartialHead moves the part of a head that has arrived out of r's conn, and the codec that has
// parsed it. The memory that a waiting connection holds is in proportion to what its client has
// sent.
func (r *runner) savePartialHead(k *shardConn) *partialHead {
	c := r.conn
	p := r.resumedHead // a head that arrives in many pieces reuses it
	if p == nil {
		p = &partialHead{codec: c.Config.Protocol.NewCodec()}
	}
	p.requestStart = c.RequestStart
	if isOwnBuffer := &c.In[0] == &c.InBuffer[0]; isOwnBuffer {
		p.in = append(make([]byte, 0, max(leastPartial, 2*(c.End-c.Next))), c.In[c.Next:c.End]...)
	} else { // the head was partial before
		copy(c.In, c.In[c.Next:c.End])
		p.in = c.In[:c.End-c.Next]
		c.In, c.Next, c.End = c.InBuffer, 0, 0
	}
	p.codec = c.SetCodec(p.codec)
	switch {
	case k.isNew.Load():
		p.requestStart = k.group().epoch.Add(time.Duration(k.ready()))
	case p.requestStart.IsZero():
		p.requestStart = time.Now()
	}
	return p
}

// detach prepares r's conn for another connection.
func (r *runner) detach() {
	r.resumedHead = nil
	if r.conn.InBuffer == nil { // a handler has hijacked the connection
		r.conn.InBuffer = make([]byte, inSize)
	}
	r.conn.Reset()
}
