package proxy

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"

	"github.com/tarehq/tare/front/internal/cache"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/fetch"
	"github.com/tarehq/tare/internal/connection"
)

// stream forwards a response without buffering. Where it can, it is detached when it waits: the
// handler returns, and an event loop forwards what arrives. A goroutine continues when the loop
// cannot: at the end, and if the client does not keep up. A waiting stream takes 12 KB in this way in
// place of 20, of which 8 were the stack of its goroutine.
type stream struct {
	proxy   *proxy
	x       *core.Exchange
	resp    *http.Response
	body    io.ReadCloser
	waits   waiting
	trySend func(p []byte) connection.Delivery // nil before it is detached
	unsent  bool                               // trySend has left a part for Flush
	late    int                                // pieces that trySend could not send at once
	end     func(isComplete bool)              // of the exchange, once detached
	resume  func(why any)                      // of the server, once detached
}

// waiting is what a stream does until input arrives.
//
//	onceInHandler ──▶ inHandler ──detach──▶ onLoop ──mostLate──▶ inGoroutine
//	                  inHandler ──cannot be detached──▶ inGoroutine
type waiting uint8

const (
	// onceInHandler: the handler waits, and the next time the stream is detached. A response that waits
	// once for its body costs less in this way.
	onceInHandler waiting = iota
	inHandler
	onLoop
	// inGoroutine: a goroutine waits, which is the handler's if the stream cannot be detached.
	// Otherwise its pieces are large, or its client is often late, so that a loop costs more.
	inGoroutine
)

// mostLate is how many pieces a loop may fail to send at once.
const mostLate = 3

// begin forwards until the response has ended or is detached.
func (s *stream) begin() {
	if s.resp.ContentLength != 0 && !cache.HasInput(s.resp.Body) {
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
		if mayWait && s.wait() {
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

// wait waits for input without memory for it. It reports whether a loop waits in place of the caller.
func (s *stream) wait() (isDetached bool) {
	switch s.waits {
	case onceInHandler:
		s.waits = inHandler
	case inHandler:
		if s.detach() {
			return true
		}
	case onLoop:
		if s.late < mostLate {
			return s.waitOnLoop()
		}
		s.waits = inGoroutine
	}
	if deliverer, ok := s.body.(connection.Deliverer); ok {
		deliverer.Deliver(s.x.Response.TrySender(nil))
	} else if awaiter, ok := s.body.(connection.InputAwaiter); ok {
		awaiter.AwaitInput()
	}
	return false
}

// detach makes a loop wait once the handler has returned. It reports false, and does nothing, if
// there is input, or if the response needs its handler.
func (s *stream) detach() bool {
	x := s.x
	body, ok := s.body.(connection.LoopDeliverer)
	if !ok || x.Parent != nil || !ownsRequest(x) || !body.CanDeliverOn() {
		s.waits = inGoroutine
		return false
	}
	if cache.HasInput(s.body) {
		return false
	}
	s.trySend = x.Response.TrySender(func(resume func(why any)) {
		if s.resume = resume; !s.waitOnLoop() {
			go s.proceed()
		}
	})
	if s.trySend == nil {
		s.waits = inGoroutine
		return false
	}
	x.Detach(func(end func(isComplete bool)) { s.end = end })
	s.waits, s.resp.Body = onLoop, http.NoBody // the caller closes it
	return true
}

// waitOnLoop lets a loop forward what arrives. It reports false if there is input, or no descriptor is
// left for a loop.
func (s *stream) waitOnLoop() bool {
	return s.body.(connection.LoopDeliverer).DeliverOn(&s.x.Plan.State.Relay, s.deliver, s.proceed)
}

// deliver forwards a piece on the loop.
func (s *stream) deliver(p []byte) connection.Delivery {
	how := s.trySend(p)
	if s.unsent = how == connection.Deposited; how != connection.Delivered {
		s.late++
	}
	return how
}

// proceed continues the stream where the loop could not. It is a goroutine's function.
func (s *stream) proceed() {
	isOver := false
	defer func() {
		why := recover()
		if why == nil && !isOver {
			return // a loop waits
		}
		if why != nil && why != http.ErrAbortHandler { //nolint:errorlint // compared as net/http does
			why = fmt.Sprintf("%v\n%s", why, debug.Stack())
		}
		_ = s.body.Close()
		s.end(isOver)
		s.resume(why)
	}()
	mayWait := s.unsent
	if s.unsent {
		s.unsent = false
		s.flush()
	}
	isOver = s.run(mayWait)
}
