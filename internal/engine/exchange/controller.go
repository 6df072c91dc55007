package exchange

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"reflect"
	"time"

	"github.com/tarehq/tare/internal/connection"
)

// The optional interfaces that handlers find by http.ResponseController or a type assertion.
var (
	_ connection.RequestBody    = (*Body)(nil)
	_ connection.ResponseWriter = (*Response)(nil)

	_ http.Flusher       = (*Response)(nil)
	_ http.CloseNotifier = (*Response)(nil) //nolint:staticcheck // published programs assert it
	_ io.StringWriter    = (*Response)(nil)
	_ http.Hijacker      = connResponse{}
	_ io.ReaderFrom      = connResponse{}
)

func (w *Response) WriteHeader(code int) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if w.mayCommit(code) {
		w.commit(code)
	}
}

func (w *Response) Flush() { _ = w.FlushError() }

func (w *Response) FlushError() error {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	return w.flush()
}

func (w *Response) flush() error {
	if err := w.CheckUsable(); err != nil {
		return err
	}
	if w.stage == stageOpen {
		w.commit(http.StatusOK)
	}
	if w.stage == stageCommitted {
		w.frame(w.Conn.heldBody, false)
	}
	if err := w.emitHeld(); err != nil {
		return err
	}
	w.x.Body.releaseUnused(w.Conn)
	return w.Conn.Flush()
}

func (w *Response) SetReadDeadline(t time.Time) error {
	return w.setDeadline(handlerReadDeadline, deadlines.SetReadDeadline, t)
}

func (w *Response) SetWriteDeadline(t time.Time) error {
	return w.setDeadline(HandlerWriteDeadline, deadlines.SetWriteDeadline, t)
}

// setDeadline sets a deadline of the connection, or of the hijacked connection, until the handler
// has returned. It does not lock the response's mutex, so that it can end a Write that waits. The
// context's mutex separates it from the next request: after cancel no call gets this far.
func (w *Response) setDeadline(flag uint32, set func(deadlines, time.Time) error, t time.Time) error {
	if hijacked := w.hijacked.Load(); hijacked != nil {
		return set(*hijacked, t)
	}
	ctx := &w.x.ctx
	ctx.mu.Lock()
	defer ctx.mu.Unlock()
	if w.Flags.Has(handlerReturned) {
		return errFinished
	}
	w.Flags.Set(flag)
	return set(ctx.transport, t)
}

// deadlines is a Transport, or a connection that was hijacked.
type deadlines interface {
	SetReadDeadline(time.Time) error
	SetWriteDeadline(time.Time) error
}

func (w *Response) SetSendTimeout(d time.Duration) error {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if err := w.CheckUsable(); err != nil {
		return err
	}
	w.Conn.SetSendTimeout(max(0, d))
	return nil
}

func (w *Response) SetLinger(limit, timeout time.Duration, always bool) error {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if err := w.CheckUsable(); err != nil {
		return err
	}
	w.Conn.linger = lingerLimits{limit, timeout, always}
	return nil
}

// Stderr returns a writer to the client's error log, or nil if the protocol has none.
func (w *Response) Stderr() io.Writer {
	if w.x.Extras == nil {
		return nil
	}
	return w.x.Extras.ErrorStream(w)
}

func (w *Response) EnableFullDuplex() error {
	w.Flags.Set(FullDuplex)
	return nil
}

// CloseNotify implements http.CloseNotifier: the channel receives a value when the client leaves.
func (w *Response) CloseNotify() <-chan bool {
	if w.Flags.Has(handlerReturned) {
		panic("net/http: CloseNotify called after ServeHTTP finished") // the handler's bug
	}
	return w.x.ctx.closeNotify()
}

// Hijack implements http.Hijacker. The handler owns the connection from then on. The reader holds
// what was received after the request. If Hijack fails, the response can continue, but not the
// request's body.
func (w connResponse) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	c, b := w.Conn, &w.x.Body
	if w.stage == stageFinished || w.Flags.Has(handlerReturned) {
		panic("http: Hijack called after ServeHTTP finished") // the handler's bug
	}
	if w.IsHijacked() {
		return nil, nil, http.ErrHijacked
	}
	flush := c.Flush // responses to earlier requests may still wait
	if w.stage != stageOpen {
		flush = w.flush
	}
	if err := flush(); err != nil {
		return nil, nil, err
	}
	b.claimInput()
	defer b.reading.Unlock()
	b.stopWatch(c)
	rest := bytes.Clone(c.Input())
	nc, err := c.Connection.Hijack()
	if err != nil {
		return nil, nil, err
	}
	w.hijacked.Store(&nc)
	reader := bufio.NewReader(nc)
	if len(rest) > 0 {
		reader = bufio.NewReaderSize(io.MultiReader(bytes.NewReader(rest), nc), max(OutSize, len(rest)))
		_, _ = reader.Peek(len(rest)) // fills the reader's buffer; reading from memory cannot fail
	}
	return nc, bufio.NewReadWriter(reader, bufio.NewWriter(nc)), nil
}

// ReadFrom implements io.ReaderFrom. If src is a file or a socket and the body needs no framing,
// the connection copies from it. The kernel may then do the copying.
func (w connResponse) ReadFrom(src io.Reader) (n int64, err error) {
	plain := copyWriter{response: w.Response}
	if !kernelCanRead(src) {
		return io.Copy(plain, src)
	}
	w.Mu.Lock()
	isFramed := w.stage >= stageFramed
	w.Mu.Unlock()
	if !isFramed { // the first bytes decide Content-Type and complete the head
		if n, err = io.CopyN(plain, src, holdSize+1); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return n, err
		}
	}
	copied, done, err := w.copyFrom(src)
	n += copied
	switch copied = 0; {
	case !done:
		plain.flushes = err != nil // as in net/http: a pipe or a socket may provide no more for long
		copied, err = io.Copy(plain, src)
	case err == nil: // more than Content-Length permits is an error
		if copied, err = io.CopyN(plain, src, 1); errors.Is(err, io.EOF) {
			err = nil
		}
	}
	return n + copied, err
}

// kernelCanRead reports whether the kernel may be able to copy from src. io.Copy passes wrappers
// that hide the WriteTo of an *os.File or a *net.TCPConn. Any other reader might call back into the
// response, also a type that embeds an *os.File, whose own Read net/http may pass over.
func kernelCanRead(src io.Reader) bool {
	if limited, ok := src.(*io.LimitedReader); ok {
		src = limited.R
	}
	switch src.(type) {
	case *os.File, *net.TCPConn, *net.UnixConn:
		return true
	}
	from := reflect.TypeOf(src).PkgPath()
	return from == "net" || from == "os"
}

// copyFrom makes the connection copy from src. done reports whether it could. If not, err is
// errors.ErrUnsupported if only the kind of src prevents it.
func (w *Response) copyFrom(src io.Reader) (n int64, done bool, err error) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if err := w.CheckUsable(); err != nil {
		return 0, true, err
	}
	left := w.Length - w.written
	if !w.Conn.Connection.CanSendFrom() || w.stage != stageFramed || w.Chunked || w.IsHEAD || w.NoBody ||
		w.Length >= 0 && left <= 0 {
		return 0, false, nil
	}
	if err := w.flush(); err != nil {
		return 0, true, err
	}
	limited, isLimited := src.(*io.LimitedReader)
	if !isLimited { // the kernel copies from an io.LimitedReader over a file, not from two
		limited = &io.LimitedReader{R: src, N: math.MaxInt64}
	}
	excess := int64(0)
	if w.Length >= 0 && limited.N > left {
		excess = limited.N - left
		limited.N = left
	}
	n, err = w.Conn.Connection.SendFrom(limited, w.Conn.CurrentSendTimeout())
	if limited.N += excess; err == errors.ErrUnsupported { //nolint:errorlint // an ENOSYS is ErrUnsupported, too
		return 0, false, err
	}
	w.written += n
	w.Conn.FailWrite(err)
	return n, true, err
}

// copyWriter writes as much as Content-Length permits, as net/http's ReadFrom does since Go 1.27.
type copyWriter struct {
	response *Response
	flushes  bool // after each Write
}

func (c copyWriter) Write(p []byte) (n int, err error) {
	w, fitting := c.response, p
	if _, err = w.Write(nil); err != nil { // fixes the length
		return 0, err
	}
	w.Mu.Lock()
	if w.Length >= 0 {
		fitting = p[:min(int64(len(p)), max(0, w.Length-w.written))]
	}
	w.Mu.Unlock()
	if len(fitting) == 0 { // Write returns the reason
		fitting = p
	}
	if n, err = w.Write(fitting); err == nil && c.flushes {
		err = w.FlushError()
	}
	if err == nil && n < len(p) {
		err = http.ErrContentLength
	}
	return n, err
}
