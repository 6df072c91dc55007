package engine

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"path"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/tarehq/tare/internal/wire/http1"
)

// stage is the progress of a response:
//
//	open ──WriteHeader, Write──▶ committed ──frame──▶ framed ──detach──▶ finished
//
// A handler that returns without a Write passes through all stages at once.
type stage uint8

const (
	stageOpen stage = iota // the handler may still choose the status and set fields
	// status and fields are fixed and in conn.out; the framing is undecided
	stageCommitted
	stageFramed   // the head is complete; body bytes follow it
	stageFinished // the handler has returned
)

// errFinished is returned to goroutines that outlive their handler.
var errFinished = errors.New("http: response written after its handler returned")

// response is the http.ResponseWriter. It appends to conn.out, first the head, once the handler
// commits to it, and then the body. While the length is unknown and the body small, the body waits
// in conn.heldBody: the handler may return, and the length is then known.
type response struct {
	x      *exchange
	conn   *conn       // nil once finished
	header http.Header // nil until Header is called

	mu           sync.Mutex // goroutines that outlive the handler may still write
	stage        stage
	minor        uint8 // the request's minor version
	status       uint16
	isHEAD       bool  // the request is a HEAD
	closesConn   bool  // the connection closes after this response
	keepsHTTP10  bool  // an HTTP/1.0 client requested a persistent connection
	chunked      bool  // valid once framed
	noBody       bool  // valid once committed: the status allows no body
	bodyWithheld bool  // valid once committed: the client received no "100 Continue"
	length       int64 // declared or computed; -1 for unknown
	written      int64 // bytes that the handler has written

	flags    flags                        // not guarded by mu
	hijacked atomic.Pointer[hijackedConn] // set by Hijack
}

// flags are bits that are read without a lock.
type flags struct{ atomic.Uint32 }

const (
	fullDuplex           = 1 << iota // EnableFullDuplex was called
	handlerReadDeadline              // the handler has set a read deadline
	handlerWriteDeadline             // the handler has set a write deadline
	handlerReturned                  // the handler has returned
	largeHead                        // the request's head is large: see exchange.splitRequest
)

func (f *flags) set(flag uint32)      { f.Or(flag) }
func (f *flags) clear(flag uint32)    { f.And(^flag) }
func (f *flags) has(flag uint32) bool { return f.Load()&flag != 0 }

// detach ends the response. The caller holds mu. A response that the handler keeps then does not
// keep the connection's buffers, and a goroutine that outlives the handler cannot reach them.
func (w *response) detach() {
	w.stage = stageFinished
	w.conn = nil
}

// hijackedConn is the connection that a handler has hijacked.
type hijackedConn struct{ net.Conn }

// fieldSummary records what the handler's fields contained when they were committed.
type fieldSummary struct {
	hasContentType, hasContentEncoding, hasDate bool
	hasLength, hasTrailers                      bool
	fieldCount                                  int // of the Header
	transferEncoding                            string
	// values of Connection; written once it is decided whether the connection closes
	connection []string
}

func (w *response) init(c *conn, x *exchange, minor int, persistent bool) {
	w.x, w.conn = x, c
	c.summary = fieldSummary{}
	w.length = -1
	w.minor = uint8(minor)
	w.isHEAD = x.request.Method == http.MethodHead
	w.keepsHTTP10 = minor == 0 && persistent
	w.closesConn = minor > 0 && !persistent
}

// Header implements http.ResponseWriter.
func (w *response) Header() http.Header {
	if w.header == nil {
		w.header = make(http.Header)
	}
	return w.header
}

func (w *response) writeHeader(code int) {
	switch {
	case w.hijacked.Load() != nil:
		w.logMisuse("response.WriteHeader on hijacked connection")
		return
	case w.stage != stageOpen:
		w.logMisuse("superfluous response.WriteHeader call")
		return
	case code < 100 || code > 999:
		// the handler's bug; net/http's text
		panic(fmt.Sprintf("invalid WriteHeader code %v", code))
	case code < 200 && code != http.StatusSwitchingProtocols:
		w.sendInterim(code)
		return
	}
	w.commit(code)
}

// sendInterim sends an interim response.
func (w *response) sendInterim(code int) {
	if code == http.StatusContinue {
		w.x.body.endContinue()
	}
	c := w.conn
	if !c.codec.appendInterim(w, code) {
		return
	}
	w.appendFields(true)
	c.out = http1.AppendHeadEnd(c.out)
	_ = c.flush()
}

// commit fixes the status and the handler's fields.
func (w *response) commit(code int) {
	w.bodyWithheld = w.x.body.endContinue()
	w.stage, w.status = stageCommitted, uint16(code)
	w.noBody = !http1.BodyAllowed(code)
	if code == http.StatusSwitchingProtocols || code < 300 && w.x.request.Method == http.MethodConnect {
		w.closesConn = true // a tunnel follows; without Hijack nothing can
	}
	w.conn.responseStart = len(w.conn.out)
	w.conn.codec.startHead(w, code)
	if w.header != nil {
		w.appendFields(false)
	}
}

func statusText(code int) string {
	if text := http.StatusText(code); text != "" {
		return text
	}
	return "status code " + strconv.Itoa(code)
}

// Write implements http.ResponseWriter.
func (w *response) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.hijacked.Load() != nil:
		if len(p) > 0 {
			w.logMisuse("response.Write on hijacked connection")
		}
		return 0, http.ErrHijacked
	case w.stage == stageFinished:
		return 0, errFinished
	case w.stage == stageOpen:
		w.writeHeader(http.StatusOK)
	}
	if len(p) == 0 {
		return 0, nil
	}
	if w.noBody {
		return 0, http.ErrBodyNotAllowed
	}
	if w.written += int64(len(p)); w.length >= 0 && w.written > w.length {
		return 0, http.ErrContentLength
	}
	if err := w.bufferBody(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// WriteString implements io.StringWriter. Write does not modify its argument, so that it can
// receive the string's own bytes.
func (w *response) WriteString(s string) (int, error) {
	return w.Write(unsafe.Slice(unsafe.StringData(s), len(s)))
}

// bufferBody appends p to the response, or to the held bytes if it can.
func (w *response) bufferBody(p []byte) error {
	c := w.conn
	if w.stage == stageCommitted && w.length >= 0 {
		w.frame(p, false)
	}
	if w.stage == stageFramed && !w.chunked {
		return w.emit(p)
	}
	if len(c.heldBody)+len(p) <= holdSize {
		c.heldBody = append(c.heldBody, p...)
		return c.writeErr
	}
	if w.stage == stageCommitted {
		w.frame(sniffable(c.heldBody, p), false)
	}
	if err := w.emitHeld(); err != nil {
		return err
	}
	if len(p) < holdSize && w.chunked {
		c.heldBody = append(c.heldBody, p...)
		return nil
	}
	return w.emit(p)
}

// sniffable returns the start of the body for http.DetectContentType.
func sniffable(held, p []byte) []byte {
	const sniffLen = 512
	if len(held) == 0 || len(held) >= sniffLen {
		if len(held) == 0 {
			return p
		}
		return held
	}
	return append(held[:len(held):len(held)], p[:min(len(p), sniffLen-len(held))]...)
}

func (w *response) emitHeld() error {
	c := w.conn
	if len(c.heldBody) == 0 {
		return c.writeErr
	}
	err := w.emit(c.heldBody)
	poison(c.heldBody)
	c.heldBody = c.heldBody[:0]
	return err
}

// emit appends body bytes to the output with their framing. It writes large ones directly from p.
func (w *response) emit(p []byte) error {
	c := w.conn
	if w.isHEAD || len(p) == 0 {
		return c.writeErr
	}
	return c.codec.emitBody(w, p)
}

// finish completes the response after the handler has returned, and reports whether the connection
// can be reused.
func (w *response) finish() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hijacked.Load() != nil {
		return false
	}
	c := w.conn
	c.current = nil
	if w.stage == stageOpen {
		w.commit(http.StatusOK)
	}
	if w.stage == stageCommitted {
		w.frame(c.heldBody, true)
	}
	_ = w.emitHeld()
	short := !w.isHEAD && !w.noBody && w.length >= 0 && w.written != w.length && !w.x.body.flags.has(bodyAborted)
	if !short {
		c.codec.endBody(w)
	}
	duplex := w.flags.has(fullDuplex)
	if w.closesConn || short || duplex || w.flags.has(handlerWriteDeadline) || !c.canBatch() {
		_ = c.flush()
	}
	reuse := !w.closesConn && !short && c.writeErr == nil && (!duplex || w.x.body.drain())
	w.detach()
	return reuse
}

// logMisuse logs a misuse of the response with the handler's line.
func (w *response) logMisuse(what string) {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	frame, more := frames.Next()
	for more && strings.Contains(frame.Function, "/internal/engine.") {
		frame, more = frames.Next()
	}
	w.x.ctx.transport.logf("http: %s from %s (%s:%d)", what, frame.Function, path.Base(frame.File), frame.Line)
}
