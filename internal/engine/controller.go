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

// What handlers reach through http.ResponseController and by asking a
// ResponseWriter for more.
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

// FlushError sends what has been written so far.
func (w *response) FlushError() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.flush()
}

func (w *response) flush() error {
	if err := w.usable(); err != nil {
		return err
	}
	if w.stage == open {
		w.writeHeader(http.StatusOK)
	}
	if w.stage == committed {
		w.frame(w.conn.held, false)
	}
	if err := w.emitHeld(); err != nil {
		return err
	}
	return w.conn.flush()
}

// SetReadDeadline bounds reading the request's body.
func (w *response) SetReadDeadline(t time.Time) error {
	return w.setDeadline(ownReadDeadline, t)
}

// SetWriteDeadline bounds writing the response.
func (w *response) SetWriteDeadline(t time.Time) error {
	return w.setDeadline(ownWriteDeadline, t)
}

// setDeadline sets a deadline of the connection, until the handler has returned, or of what the handler made of it. It
// does not take the response's mutex, so that it can end a Write that waits. The context's mutex keeps it from the next
// request: after cancel nobody gets here.
func (w *response) setDeadline(mark uint32, t time.Time) error {
	set := net.Conn.SetReadDeadline
	if mark == ownWriteDeadline {
		set = net.Conn.SetWriteDeadline
	}
	if taken := w.taken.Load(); taken != nil {
		return set(taken, t)
	}
	ctx := &w.x.ctx
	ctx.mu.Lock()
	defer ctx.mu.Unlock()
	if w.marks.has(isOver) {
		return errFinished
	}
	w.marks.set(mark)
	if mark == ownWriteDeadline {
		return setWriteDeadline(ctx.link, t)
	}
	return set(ctx.link.raw(), t)
}

// usable is the error of whatever a handler does with a response that it has given
// up, or that has been sent. The connection may then serve another request, and on
// shards even w.conn another connection.
func (w *response) usable() error {
	switch {
	case w.taken.Load() != nil:
		return http.ErrHijacked
	case w.stage == finished:
		return errFinished
	}
	return nil
}

// abandonTime bounds sending what a handler has written that ended badly, unless WriteTimeout does.
const abandonTime = 5 * time.Second

// abandon ends a response whose handler will not finish it. What the handler has written is sent as net/http does, so
// that the client learns that the request was begun, and does not send it again: all of it, unless it is so short that
// nothing was sent so far. A goroutine of the handler that waits for the client is not waited for. The connection
// must be closed then. abandon reports whether the client got a part of the response.
func (w *response) abandon() (sent bool) {
	if !w.mu.TryLock() {
		_ = w.x.ctx.link.raw().SetReadDeadline(longAgo())
		_ = setWriteDeadline(w.x.ctx.link, longAgo())
		w.mu.Lock()
	}
	defer w.mu.Unlock()
	if w.taken.Load() != nil {
		return false
	}
	c := w.conn
	c.current = nil
	switch {
	case w.stage == framed && (c.begun || w.written > holdSize):
		_ = w.emitHeld()
	case w.stage >= committed && !c.begun:
		c.out, c.stdout = c.out[:c.headAt], 0
	}
	if len(c.out) > 0 && c.writeErr == nil {
		limit := c.write
		if limit <= 0 {
			limit = abandonTime
		}
		if !w.marks.has(ownWriteDeadline) {
			c.setWriteDeadline(time.Now().Add(limit))
		}
		_ = c.flush()
	}
	sent = c.begun || w.written > holdSize
	w.finished()
	return sent && c.writeErr == nil
}

// EnableFullDuplex lets the handler go on reading the request's body after it has
// begun to write the response.
func (w *response) EnableFullDuplex() error {
	w.marks.set(fullDuplex)
	return nil
}

// CloseNotify implements http.CloseNotifier: the channel receives a value when the client goes away.
func (w *response) CloseNotify() <-chan bool {
	if w.marks.has(isOver) {
		panic("net/http: CloseNotify called after ServeHTTP finished") // the handler's bug
	}
	return w.x.ctx.departure()
}

// restoreDeadlines undoes what a handler set. Output that still waits keeps the bound that it had without.
func (c *conn) restoreDeadlines() {
	_ = c.nc.SetReadDeadline(time.Time{})
	c.readDeadline = time.Time{}
	var write time.Time
	if c.write > 0 {
		write = time.Now().Add(c.write)
	}
	c.setWriteDeadline(write)
}

// Hijack implements http.Hijacker: the connection is the handler's from here on,
// and what was received beyond the request is in the reader. If it fails the response can go on.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, b := w.conn, &w.x.body
	if w.stage == finished || w.marks.has(isOver) {
		panic("http: Hijack called after ServeHTTP finished") // the handler's bug
	}
	if w.taken.Load() != nil {
		return nil, nil, http.ErrHijacked
	}
	if c.fastCGI() {
		return nil, nil, http.ErrNotSupported
	}
	flush := c.flush // answers to earlier requests may still wait
	if w.stage != open {
		flush = func(...[]byte) error { return w.flush() }
	}
	if err := flush(); err != nil {
		return nil, nil, err
	}
	b.takeInput()
	defer b.reading.Unlock()
	b.suspend(c)
	rest := bytes.Clone(c.in[c.next:c.end])
	nc, err := c.link.takeOver()
	if err != nil {
		b.resume(c)
		return nil, nil, err
	}
	w.taken.Store(&taken{nc})
	reader := bufio.NewReader(nc)
	if len(rest) > 0 {
		reader = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(rest), nc), max(inSize, len(rest)))
		_, _ = reader.Peek(len(rest)) // makes them Buffered; reading from memory cannot fail
	}
	return nc, bufio.NewReadWriter(reader, bufio.NewWriter(nc)), nil
}

// ReadFrom implements io.ReaderFrom. Once nothing stands between a file or a socket
// and the connection it leaves the copying to the connection, which may let the kernel
// do it.
func (w *response) ReadFrom(src io.Reader) (n int64, err error) {
	// io.Copy would call ReadFrom again, were w not hidden.
	plain := struct{ io.Writer }{w}
	if !kernelReads(src) {
		return io.CopyBuffer(plain, src, make([]byte, copySize))
	}
	if w.stage < framed { // the first bytes tell the type, and end in a framed head
		if n, err = io.CopyN(plain, src, holdSize+1); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return n, err
		}
	}
	more, done, err := w.readFrom(src)
	if n += more; !done {
		more, err = io.CopyBuffer(plain, src, make([]byte, copySize))
		n += more
	}
	return n, err
}

// kernelReads reports whether the kernel may be able to copy from src. Others may be
// anything, and call back.
func kernelReads(src io.Reader) bool {
	if limited, ok := src.(*io.LimitedReader); ok {
		src = limited.R
	}
	switch src.(type) {
	case *os.File, *net.TCPConn, *net.UnixConn:
		return true
	}
	return false
}

// readFrom has the connection copy from src. It reports in done whether it could.
func (w *response) readFrom(src io.Reader) (n int64, done bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable(); err != nil {
		return 0, true, err
	}
	direct, ok := w.conn.nc.(io.ReaderFrom)
	left := w.length - w.written
	if !ok || w.conn.fastCGI() || w.stage != framed || w.chunked || w.head || w.noBody || w.length >= 0 && left <= 0 {
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
