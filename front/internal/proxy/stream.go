package proxy

import (
	"errors"
	"io"
	"net/http"

	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/fetch"
	"github.com/tarehq/tare/internal/connection"
)

// stream forwards a response without buffering.
//
// Where it can, it is detached as soon as it waits: the handler returns, and an event loop forwards
// what arrives. A goroutine replaces the handler's as long as the loop cannot go on: if the client
// does not keep up, and at the end. Its states:
//
//	run ──pause──▶ detached, on the loop ──proceed──▶ run
//	run ──the end of the body, or a panic──▶ over
//
// A stream of large pieces, or of a client that is often late, keeps its goroutine: after mostRefusals
// it does not return to the loop.
//
// A waiting stream takes 13 KB in place of 20, of which 8 were the stack of its goroutine.
type stream struct {
	proxy     *proxy
	x         *core.Exchange
	resp      *http.Response
	body      io.ReadCloser
	hasWaited bool                               // for input
	isBound   bool                               // to its handler: it cannot be detached
	trySend   func(p []byte) connection.Delivery // nil before it is detached
	unsent    bool                               // trySend has left a part for Flush
	refusals  int                                // pieces that trySend could not send
	end       func()                             // of the exchange, once detached
	resume    func(why any)                      // of the server, once detached
}

// mostRefusals is how many pieces a loop may try to send in vain. Each takes more than the wait of a
// goroutine.
const mostRefusals = 3

// begin forwards until the response has ended or is detached.
func (s *stream) begin() {
	if s.resp.ContentLength != 0 && !hasInput(s.resp.Body) {
		// both sides may stream, and the client may wait for the head before it sends more
		s.flush()
	}
	s.run(true)
}

// flush sends what was written. If that fails, so does the next Write.
func (s *stream) flush() { _ = http.NewResponseController(&s.x.Response).Flush() }

// run forwards until the response has ended, or an event loop forwards what follows. mayWait tells
// that the input may be late.
func (s *stream) run(mayWait bool) (isOver bool) {
	for {
		if mayWait && s.pause() {
			return false
		}
		b := s.x.Plan.State.Pieces.Get(fetch.PieceSize)
		n, err := s.body.Read(b)
		if n > 0 {
			_, writeErr := s.x.Response.Write(b[:n])
			abortOnError(writeErr)
		}
		s.x.Plan.State.Pieces.Put(b)
		if errors.Is(err, io.EOF) {
			s.proxy.sendTrailer(s.x, s.resp)
			return true
		}
		if err != nil {
			abortResponse(s.x, err)
		}
		s.flush()                       // without it the data is late, but correct
		mayWait = n < fetch.PieceSize/2 // else more may have arrived
	}
}

// pause waits for input without memory for it. It reports whether a loop waits in place of the
// caller.
func (s *stream) pause() (isDetached bool) {
	deliverer, isDeliverer := s.body.(connection.Deliverer)
	switch {
	case s.trySend == nil && s.hasWaited && s.detach():
		return true
	case s.trySend != nil && s.refusals < mostRefusals:
		return s.onLoop()
	}
	s.hasWaited = true
	switch {
	case isDeliverer:
		deliverer.Deliver(s.x.Response.TrySender())
	default:
		if awaiter, ok := s.body.(connection.InputAwaiter); ok {
			awaiter.AwaitInput()
		}
	}
	return false
}

// detach makes the server call onLoop or proceed once the handler has returned. It reports false,
// and does nothing, if the response needs its handler.
func (s *stream) detach() bool {
	x := s.x
	if _, ok := s.body.(connection.LoopDeliverer); s.isBound || !ok || x.Parent != nil || !ownsRequest(x) {
		s.isBound = true
		return false
	}
	if hasInput(s.body) {
		return false
	}
	s.trySend = x.Response.Detach(func(resume func(why any)) {
		if s.resume = resume; !s.onLoop() {
			go s.proceed()
		}
	})
	if s.isBound = s.trySend == nil; s.isBound {
		return false
	}
	x.Detach(func(end func()) { s.end = end })
	s.resp.Body = http.NoBody // the caller closes it
	return true
}

// onLoop lets a loop forward what arrives. It reports false if there is input that it cannot.
func (s *stream) onLoop() bool {
	body := s.body.(connection.LoopDeliverer)
	return body.DeliverOn(&s.x.Plan.State.Relay, s.deliver, s.proceed)
}

// deliver forwards a piece on the loop.
func (s *stream) deliver(p []byte) connection.Delivery {
	how := s.trySend(p)
	if s.unsent = how == connection.Deposited; how == connection.Refused {
		s.refusals++
	}
	return how
}

// proceed continues the stream where the loop could not. It is a goroutine's function.
func (s *stream) proceed() {
	isOver := false
	defer func() {
		why := recover()
		if why == nil && !isOver {
			return
		}
		closeQuietly(s.body)
		s.end()
		s.resume(why)
	}()
	mayWait := s.unsent
	if s.unsent {
		s.unsent = false
		s.flush()
	}
	isOver = s.run(mayWait)
}
