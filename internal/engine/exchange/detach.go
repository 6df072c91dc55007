package exchange

import "github.com/tarehq/tare/internal/connection"

// Detachable is a Connection whose exchange can outlast its handler without a goroutine.
type Detachable interface {
	Connection
	Sender
	// CanDetach reports whether it can now.
	CanDetach() bool
}

var _ connection.Detacher = (*Response)(nil)

// Detach implements connection.Detacher, for a response over HTTP/1 whose body has begun and has no
// length. The request's body was read, because reading it takes the goroutine of the handler.
func (w *Response) Detach(begin func(end func(why any))) (trySend func(p []byte) connection.Delivery) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if w.stage != stageFramed || w.IsHijacked() || w.Length >= 0 || w.IsHEAD || w.NoBody ||
		w.Flags.Has(FullDuplex|handlerReadDeadline|HandlerWriteDeadline) || w.x.Body.hasRemainder() ||
		w.x.Extras != nil {
		return nil
	}
	c := w.Conn
	to, ok := c.Connection.(Detachable)
	if !ok || !to.CanDetach() || c.Config.WriteTimeout > 0 || !w.hasSentAll() {
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
	if w.stage != stageFramed || !w.hasSentAll() || len(p) > OutSize/2 { // which Data would not only append
		return connection.Refused
	}
	if c.heldBody != nil { // of a Write that waited
		c.Out, c.heldBody = nil, nil
	}
	_ = c.Sink.Data(w, p)
	n := c.Connection.(Detachable).TrySend(c.Out)
	if n == 0 {
		c.Out = c.Out[:0]
		return connection.Refused
	}
	w.written += int64(len(p))
	c.partlySent = true
	if c.DropSent(n); len(c.Out) > 0 {
		return connection.Deposited
	}
	return connection.Delivered
}

// IsDetached reports whether the handler has returned and has left its response unfinished.
func (c *Conn) IsDetached() bool { return c.begin != nil }

// BeginDetached tells the handler that it has returned. Later it calls resume, in any goroutine, to
// end the exchange by EndDetached.
func (c *Conn) BeginDetached(resume func(x *Exchange)) {
	x := c.current
	c.begin(func(why any) {
		c.why = why
		resume(x)
	})
}

// EndDetached is the end of RunExchange for a detached exchange. It panics if that has failed.
func (c *Conn) EndDetached(x *Exchange) bool {
	why := c.why
	if c.begin, c.why = nil, nil; why != nil {
		panic(why)
	}
	return c.endExchange(x)
}
