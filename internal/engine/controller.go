package engine

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"time"
)

// The optional interfaces that handlers find by http.ResponseController or a type assertion.
var (
	_ http.Flusher       = (*response)(nil)
	_ http.Hijacker      = (*response)(nil)
	_ http.CloseNotifier = (*response)(nil) //nolint:staticcheck // published programs assert it
	_ io.StringWriter    = (*response)(nil)
	_ io.ReaderFrom      = (*response)(nil)
)

// WriteHeader implements http.ResponseWriter.
func (w *response) WriteHeader(code int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writeHeader(code)
}

// Flush implements http.Flusher.
func (w *response) Flush() { _ = w.FlushError() }

// FlushError sends what the handler has written so far.
func (w *response) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flush()
}

func (w *response) flush() error {
	if err := w.checkUsable(); err != nil {
		return err
	}
	if w.stage == stageOpen {
		w.writeHeader(http.StatusOK)
	}
	if w.stage == stageCommitted {
		w.frame(w.conn.heldBody, false)
	}
	if err := w.emitHeld(); err != nil {
		return err
	}
	return w.conn.flush()
}

// SetReadDeadline sets the deadline for reading the request's body.
func (w *response) SetReadDeadline(t time.Time) error {
	return w.setDeadline(handlerReadDeadline, t)
}

// SetWriteDeadline sets the deadline for writing the response.
func (w *response) SetWriteDeadline(t time.Time) error {
	return w.setDeadline(handlerWriteDeadline, t)
}

// setDeadline sets a deadline of the connection, or of the hijacked connection, until the handler
// has returned. It does not lock the response's mutex, so that it can end a Write that waits. The
// context's mutex separates it from the next request: after cancel no call gets this far.
func (w *response) setDeadline(flag uint32, t time.Time) error {
	set := net.Conn.SetReadDeadline
	if flag == handlerWriteDeadline {
		set = net.Conn.SetWriteDeadline
	}
	if hijacked := w.hijacked.Load(); hijacked != nil {
		return set(hijacked, t)
	}
	ctx := &w.x.ctx
	ctx.mu.Lock()
	defer ctx.mu.Unlock()
	if w.flags.has(handlerReturned) {
		return errFinished
	}
	w.flags.set(flag)
	if flag == handlerWriteDeadline {
		return setWriteDeadline(ctx.transport, t)
	}
	return set(ctx.transport.raw(), t)
}

// checkUsable returns the error for using a response that was hijacked or has ended. The connection
// may by then serve another request, and on shards w.conn may serve another connection.
func (w *response) checkUsable() error {
	switch {
	case w.hijacked.Load() != nil:
		return http.ErrHijacked
	case w.stage == stageFinished:
		return errFinished
	}
	return nil
}

// abandonTime limits how long sending the output of an aborted handler may take, unless
// WriteTimeout limits it.
const abandonTime = 5 * time.Second

// abandon ends a response whose handler was aborted. As in net/http, it sends what the handler has
// written, so that the client knows that the request was processed and does not retry it. A
// response so short that nothing of it was sent is dropped. abandon does not wait for a goroutine
// of the handler that waits for the client. The connection must then be closed. abandon reports
// whether the client received part of the response.
func (w *response) abandon() (sent bool) {
	if !w.mu.TryLock() {
		_ = w.x.ctx.transport.raw().SetReadDeadline(pastTime())
		_ = setWriteDeadline(w.x.ctx.transport, pastTime())
		w.mu.Lock()
	}
	defer w.mu.Unlock()
	if w.hijacked.Load() != nil {
		return false
	}
	c := w.conn
	c.current = nil
	switch {
	case w.stage == stageFramed && (c.partlySent || w.written > holdSize):
		_ = w.emitHeld()
	case w.stage >= stageCommitted && !c.partlySent:
		c.out, c.stdoutStart = c.out[:c.responseStart], 0
	}
	if len(c.out) > 0 && c.writeErr == nil {
		limit := c.writeTimeout
		if limit <= 0 {
			limit = abandonTime
		}
		if !w.flags.has(handlerWriteDeadline) {
			c.setWriteDeadline(time.Now().Add(limit))
		}
		_ = c.flush()
	}
	sent = c.partlySent || w.written > holdSize
	w.detach()
	return sent && c.writeErr == nil
}

// EnableFullDuplex allows the handler to read the request's body after it has begun to write the
// response.
func (w *response) EnableFullDuplex() error {
	w.flags.set(fullDuplex)
	return nil
}

// CloseNotify implements http.CloseNotifier: the channel receives a value when the client leaves.
func (w *response) CloseNotify() <-chan bool {
	if w.flags.has(handlerReturned) {
		panic("net/http: CloseNotify called after ServeHTTP finished") // the handler's bug
	}
	return w.x.ctx.closeNotify()
}

// restoreDeadlines resets the deadlines that a handler has set. Output that still waits gets the
// server's own write timeout again.
func (c *conn) restoreDeadlines() {
	_ = c.nc.SetReadDeadline(time.Time{})
	c.readDeadline = time.Time{}
	var write time.Time
	if c.writeTimeout > 0 {
		write = time.Now().Add(c.writeTimeout)
	}
	c.setWriteDeadline(write)
}

// Hijack implements http.Hijacker. The handler owns the connection from then on. The reader holds
// what was received after the request. If Hijack fails, the response can continue.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, b := w.conn, &w.x.body
	if w.stage == stageFinished || w.flags.has(handlerReturned) {
		panic("http: Hijack called after ServeHTTP finished") // the handler's bug
	}
	if w.hijacked.Load() != nil {
		return nil, nil, http.ErrHijacked
	}
	if c.isFastCGI() {
		return nil, nil, http.ErrNotSupported
	}
	flush := c.flush // responses to earlier requests may still wait
	if w.stage != stageOpen {
		flush = func(...[]byte) error { return w.flush() }
	}
	if err := flush(); err != nil {
		return nil, nil, err
	}
	b.claimInput()
	defer b.reading.Unlock()
	b.stopWatch(c)
	rest := bytes.Clone(c.in[c.next:c.end])
	nc, err := c.transport.hijack()
	if err != nil {
		b.resume(c)
		return nil, nil, err
	}
	w.hijacked.Store(&hijackedConn{nc})
	reader := bufio.NewReader(nc)
	if len(rest) > 0 {
		reader = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(rest), nc), max(inSize, len(rest)))
		_, _ = reader.Peek(len(rest)) // fills the reader's buffer; reading from memory cannot fail
	}
	return nc, bufio.NewReadWriter(reader, bufio.NewWriter(nc)), nil
}

// ReadFrom implements io.ReaderFrom. If src is a file or a socket and the body needs no framing,
// the connection copies from it. The kernel may then do the copying.
func (w *response) ReadFrom(src io.Reader) (n int64, err error) {
	// w is wrapped, or io.Copy would call ReadFrom again.
	plain := struct{ io.Writer }{w}
	if !kernelCanRead(src) {
		return io.CopyBuffer(plain, src, make([]byte, copySize))
	}
	if w.stage < stageFramed { // the first bytes decide Content-Type and complete the head
		if n, err = io.CopyN(plain, src, holdSize+1); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return n, err
		}
	}
	more, done, err := w.copyFrom(src)
	if n += more; !done {
		more, err = io.CopyBuffer(plain, src, make([]byte, copySize))
		n += more
	}
	return n, err
}

// kernelCanRead reports whether the kernel may be able to copy from src. Any other reader might
// call back into the response.
func kernelCanRead(src io.Reader) bool {
	if limited, ok := src.(*io.LimitedReader); ok {
		src = limited.R
	}
	switch src.(type) {
	case *os.File, *net.TCPConn, *net.UnixConn:
		return true
	}
	return false
}

// copyFrom makes the connection copy from src. done reports whether it could.
func (w *response) copyFrom(src io.Reader) (n int64, done bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.checkUsable(); err != nil {
		return 0, true, err
	}
	direct, ok := w.conn.nc.(io.ReaderFrom)
	left := w.length - w.written
	if !ok || w.conn.isFastCGI() || w.stage != stageFramed || w.chunked || w.isHEAD || w.noBody || w.length >= 0 &&
		left <= 0 {
		return 0, false, nil
	}
	if err := w.flush(); err != nil {
		return 0, true, err
	}
	// The kernel copies from an io.LimitedReader over a file, not from two.
	if limited, ok := src.(*io.LimitedReader); w.length >= 0 && (!ok || limited.N > left) {
		src = io.LimitReader(src, left)
	}
	n, err = w.conn.sendFrom(direct, src)
	w.written += n
	if err != nil && w.conn.writeErr == nil {
		w.conn.writeErr = err
		w.x.ctx.cancel(context.Canceled)
	}
	return n, true, err
}
