package exchange

import (
	"net/http"
	"time"
	"unsafe"

	"github.com/tarehq/tare/internal/poison"
)

// Init prepares w for the response to x on c. minor is the minor version of the request, and
// persistent reports whether the client keeps the connection.
func (w *Response) Init(c *Conn, x *Exchange, minor int, persistent bool) {
	w.x, w.Conn = x, c
	c.Summary = FieldSummary{}
	w.Length = -1
	w.Minor = uint8(minor)
	w.IsHEAD = x.Request.Method == http.MethodHead
	w.ClosesConn = !persistent
	x.Body.isLast = !persistent
}

func (w *Response) Header() http.Header {
	if w.fields == nil {
		w.fields = make(http.Header)
	}
	if c := w.Conn; c != nil && c.Summary.later != nil {
		c.Summary.later.AddTo(w.fields)
		c.Summary.later = nil
	}
	return w.fields
}

func (w *Response) Write(p []byte) (int, error) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	switch {
	case w.IsHijacked():
		if len(p) > 0 {
			w.logMisuse("response.Write on hijacked connection")
		}
		return 0, http.ErrHijacked
	case w.stage == stageFinished:
		return 0, errFinished
	case w.stage == stageOpen:
		w.commit(http.StatusOK)
	}
	if len(p) == 0 {
		return 0, nil
	}
	if w.NoBody {
		return 0, http.ErrBodyNotAllowed
	}
	if w.written += int64(len(p)); w.Length >= 0 && w.written > w.Length {
		return 0, http.ErrContentLength
	}
	if err := w.bufferBody(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// WriteString implements io.StringWriter. Write does not modify its argument, so that it can
// receive the string's own bytes.
func (w *Response) WriteString(s string) (int, error) {
	return w.Write(unsafe.Slice(unsafe.StringData(s), len(s)))
}

// bufferBody appends p to the response, or to the held bytes if it can.
func (w *Response) bufferBody(p []byte) error {
	c := w.Conn
	// otherwise it is held, for Content-Type, or because the handler may still read the request's body
	if w.stage == stageCommitted && w.Length >= 0 && c.Summary.hasContentType && len(c.heldBody) == 0 &&
		!w.x.Body.hasRemainder() {
		w.frame(p, false)
	}
	if w.stage == stageFramed && !w.Chunked {
		return w.emit(p)
	}
	if len(c.heldBody)+len(p) <= c.holdSize {
		c.heldBody = append(c.heldBody, p...)
		return c.WriteErr
	}
	if w.stage == stageCommitted {
		w.frame(sniffable(c.heldBody, p), false)
	}
	if err := w.emitHeld(); err != nil {
		return err
	}
	if len(p) < c.holdSize && w.Chunked {
		c.heldBody = append(c.heldBody, p...)
		return nil
	}
	return w.emit(p)
}

// sniffable returns the start of the body for http.DetectContentType.
func sniffable(held, p []byte) []byte {
	const sniffLen = 512
	switch {
	case len(held) == 0:
		return p
	case len(held) >= sniffLen:
		return held
	}
	return append(held[:len(held):len(held)], p[:min(len(p), sniffLen-len(held))]...)
}

func (w *Response) emitHeld() error {
	c := w.Conn
	if len(c.heldBody) == 0 {
		return c.WriteErr
	}
	err := w.emit(c.heldBody)
	poison.Fill(c.heldBody)
	c.heldBody = c.heldBody[:0]
	return err
}

// emit appends body bytes to the output with their framing. It writes large ones directly from p.
func (w *Response) emit(p []byte) error {
	c := w.Conn
	switch {
	case w.IsHEAD || len(p) == 0:
	case len(p) >= OutSize:
		return c.sink.SendData(w, p)
	default:
		if c.sink.Data(w, p); len(c.Out) >= OutSize {
			return c.Flush()
		}
	}
	return c.WriteErr
}

// finish completes the response after the handler has returned, and reports whether the connection
// can be reused.
func (w *Response) finish() bool {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if w.IsHijacked() {
		return false
	}
	c := w.Conn
	c.current = nil
	if w.stage == stageOpen {
		w.commit(http.StatusOK)
	}
	if w.stage == stageCommitted {
		w.frame(c.heldBody, true)
	}
	_ = w.emitHeld()
	short := !w.IsHEAD && !w.NoBody && w.Length >= 0 && w.written != w.Length && !w.x.Body.flags.Has(bodyAborted)
	if !short {
		c.sink.End(w)
	}
	duplex := w.Flags.Has(FullDuplex)
	if short || duplex || w.Flags.Has(HandlerWriteDeadline) || !c.conns.batches || len(c.Out) >= OutSize {
		_ = c.Flush()
	}
	reuse := !w.ClosesConn && !short && c.WriteErr == nil && (!duplex || w.x.Body.drain())
	if !reuse {
		w.drainLast()
	}
	w.close()
	return reuse
}

// close ends the response. The caller holds mu. A response that the handler keeps then does not
// keep the connection's buffers, and a goroutine that outlives the handler cannot reach them.
func (w *Response) close() {
	w.stage = stageFinished
	w.Conn = nil
}

// drainLast is called after the last response. As in net/http, it reads a small remainder of the
// body, so that a client that sends slowly can send all of it.
func (w *Response) drainLast() {
	c, b := w.Conn, &w.x.Body
	isIgnored := b.Mode == ByLength && b.isLast // also by net/http
	if !b.hasRemainder() || b.flags.Has(bodyWithheld) || isIgnored || w.x.Extras != nil {
		return
	}
	if c.Lingers = c.halfClose(); c.WriteErr == nil {
		b.drain()
	}
}

// abandonTime limits how long sending the output of an aborted handler may take, unless
// WriteTimeout limits it.
const abandonTime = 5 * time.Second

// abandon ends a response whose handler was aborted. As in net/http, it sends what the handler has
// written, so that the client knows that the request was processed and does not retry it. A
// response so short that nothing of it was sent is dropped. abandon does not wait for a goroutine
// of the handler that waits for the client. The connection must then be closed. abandon reports
// whether the client received part of the response.
func (w *Response) abandon() (sent bool) {
	if !w.Mu.TryLock() {
		_ = w.x.ctx.transport.SetReadDeadline(PastTime())
		_ = w.x.ctx.transport.SetWriteDeadline(PastTime())
		w.Mu.Lock()
	}
	defer w.Mu.Unlock()
	if w.IsHijacked() {
		return false
	}
	c := w.Conn
	c.current = nil
	switch {
	case w.stage == stageFramed && (c.partlySent || w.written > int64(c.holdSize)):
		_ = w.emitHeld()
	case w.stage >= stageCommitted && !c.partlySent:
		c.Out = c.Out[:c.responseStart]
	}
	if len(c.Out) > 0 && c.WriteErr == nil {
		limit := c.Config.WriteTimeout
		if limit <= 0 {
			limit = abandonTime
		}
		if !w.Flags.Has(HandlerWriteDeadline) {
			c.SetWriteDeadline(time.Now().Add(limit))
		}
		_ = c.Flush()
	}
	sent = c.partlySent || w.written > int64(c.holdSize)
	w.close()
	return sent && c.WriteErr == nil
}

// connResponse is the http.ResponseWriter over a connection that carries one exchange at a time. It
// has methods of the connection, which other protocols lack. Its conversion to an interface does
// not allocate.
type connResponse struct{ *Response }
