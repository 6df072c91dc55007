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
	_ http.Flusher    = (*response)(nil)
	_ http.Hijacker   = (*response)(nil)
	_ io.StringWriter = (*response)(nil)
	_ io.ReaderFrom   = (*response)(nil)
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
	nc, err := w.deadlineConn()
	if err != nil {
		return err
	}
	return nc.SetReadDeadline(t)
}

// SetWriteDeadline bounds writing the response.
func (w *response) SetWriteDeadline(t time.Time) error {
	nc, err := w.deadlineConn()
	if err != nil {
		return err
	}
	return nc.SetWriteDeadline(t)
}

// deadlineConn is what a handler may set deadlines of: the connection, until the
// handler has returned, or whatever the handler made of it.
func (w *response) deadlineConn() (net.Conn, error) {
	// Without w.mu, so that a Write that waits can be ended; w.conn.nc may be another's by now.
	if t := w.taken.Load(); t != nil {
		return t, nil
	}
	if w.marks.has(isOver) {
		return nil, errFinished
	}
	w.marks.set(ownDeadlines)
	return w.x.ctx.link.raw(), nil
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

// abandon ends a response that will not be finished. A goroutine of its handler that
// waits for the client is not waited for.
func (w *response) abandon() {
	_ = w.conn.nc.SetDeadline(longAgo())
	w.mu.Lock()
	w.finished()
	w.mu.Unlock()
}

// EnableFullDuplex lets the handler go on reading the request's body after it has
// begun to write the response.
func (w *response) EnableFullDuplex() error {
	w.marks.set(fullDuplex)
	return nil
}

// restoreDeadlines undoes what a handler set.
func (c *conn) restoreDeadlines() {
	_ = c.nc.SetDeadline(time.Time{})
	c.readDeadline = time.Time{}
}

// Hijack implements http.Hijacker: the connection is the handler's from here on,
// and what was received beyond the request is in the reader.
func (w *response) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	c, b := w.conn, &w.x.body
	if w.stage == finished {
		panic("http: Hijack called after ServeHTTP finished") // the handler's bug
	}
	if w.taken.Load() != nil {
		return nil, nil, http.ErrHijacked
	}
	if c.fastCGI() {
		return nil, nil, http.ErrNotSupported
	}
	b.dropContinue()
	flush := c.flush // answers to earlier requests may still wait
	if w.stage != open {
		flush = func(...[]byte) error { return w.flush() }
	}
	if err := flush(); err != nil {
		return nil, nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	c.link.stopWatch()
	rest := bytes.Clone(c.in[c.next:c.end])
	nc, err := c.link.takeOver()
	if err != nil {
		return nil, nil, err
	}
	b.over = true
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
	n, err = direct.ReadFrom(src)
	w.written += n
	if err != nil && w.conn.writeErr == nil {
		w.conn.writeErr = err
		w.x.ctx.cancel(context.Canceled)
	}
	return n, true, err
}
