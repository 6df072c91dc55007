package exchange

import "github.com/tarehq/tare/internal/connection"

var _ connection.TrySender = (*Response)(nil)

// TrySender implements connection.TrySender, for a response whose body has begun and has no length:
// over HTTP/2, and over HTTP/1 if it is detached. The request's body was then read, because reading
// it takes the goroutine of the handler. These conditions do not change between calls of the
// response's methods, so they are checked once, and not for each piece.
func (w *Response) TrySender(begin func(end func(why any))) func(p []byte) connection.Delivery {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if w.stage != stageFramed || w.IsHijacked() || w.Length >= 0 || w.IsHEAD || w.NoBody || !w.hasSentAll() {
		return nil
	}
	c := w.Conn
	if begin == nil {
		if to, ok := c.transport.(Stream); ok {
			return to.TrySend
		}
		return nil
	}
	_, ok := c.Connection.(Sender)
	if !ok || !c.Connection.CanSendFrom() || c.Config.WriteTimeout > 0 || w.x.Extras != nil ||
		w.x.Body.hasRemainder() || w.Flags.Has(FullDuplex|handlerReadDeadline|HandlerWriteDeadline) {
		return nil
	}
	c.Out, c.heldBody, c.begin = nil, nil, begin
	return w.trySend
}

// hasSentAll reports whether nothing waits for a Flush. The caller holds Mu.
func (w *Response) hasSentAll() bool {
	c := w.Conn
	return len(c.heldBody) == 0 && len(c.Out) == 0 && c.WriteErr == nil
}

// trySend sends a piece of the body of a detached response, or as much of it as there is room for.
func (w *Response) trySend(p []byte) connection.Delivery {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	c := w.Conn
	if w.stage != stageFramed || !w.hasSentAll() || len(p) > OutSize/2 {
		return connection.Refused
	}
	if c.heldBody != nil { // of a Write that waited
		c.Out, c.heldBody = nil, nil
	}
	c.sink.Data(w, p)
	n := c.Connection.(Sender).TrySend(c.Out)
	if n == 0 {
		c.Out = c.Out[:0]
		return connection.Refused
	}
	w.written += int64(len(p))
	if c.DropSent(n); len(c.Out) > 0 {
		return connection.Deposited
	}
	return connection.Delivered
}

// BeginDetached tells the handler that it has returned. Later it calls resume, in any goroutine, to
// end the exchange by EndDetached.
func (c *Conn) BeginDetached(resume func(x *Exchange)) {
	x := c.current
	c.begin(func(why any) {
		c.why = why
		resume(x)
	})
}

// EndDetached is the end of RunExchange for a detached exchange. If the exchange has failed, it
// panics.
func (c *Conn) EndDetached(x *Exchange) bool {
	why := c.why
	if c.begin, c.why = nil, nil; why != nil {
		panic(why)
	}
	return c.endExchange(x, false)
}
