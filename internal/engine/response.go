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

// stage is how far a response has come.
type stage uint8

const (
	open      stage = iota // the handler may still choose the status and set fields
	committed              // they are fixed and in conn.out; the body's framing is undecided
	framed                 // the head is complete in conn.out; body bytes follow it
	finished               // the handler has returned
)

// errFinished is what a handler's leftovers get.
var errFinished = errors.New("http: response written after its handler returned")

// response is the http.ResponseWriter. It produces into conn.out: first the head,
// as soon as the handler commits to it, then the body. While the length is unknown
// and small it holds the body back in conn.held, because the handler may return
// and thereby tell it.
type response struct {
	x      *exchange
	conn   *conn       // nil once the stage is finished
	header http.Header // nil until the handler asks for it

	mu       sync.Mutex // a goroutine that the handler left behind may still write
	stage    stage
	minor    uint8 // of the request's version
	status   uint16
	head     bool  // the request is a HEAD
	close    bool  // the connection ends with this response
	keep10   bool  // an HTTP/1.0 client asked to keep the connection
	chunked  bool  // once framed
	noBody   bool  // once committed: the status allows none
	withheld bool  // once committed: the client was not told to send its body
	length   int64 // declared or found out; -1 is unknown
	written  int64 // by the handler

	marks marks                 // without mu
	taken atomic.Pointer[taken] // by Hijack
}

// marks are what is asked without the response's lock.
type marks struct{ atomic.Uint32 }

const (
	fullDuplex       = 1 << iota // EnableFullDuplex
	ownReadDeadline              // the handler set one
	ownWriteDeadline             // the handler set one
	isOver                       // the handler has returned
	isLarge                      // the request's head was: see exchange.separate
)

func (m *marks) set(mark uint32)      { m.Or(mark) }
func (m *marks) drop(mark uint32)     { m.And(^mark) }
func (m *marks) has(mark uint32) bool { return m.Load()&mark != 0 }

// finished ends the response. The caller holds mu. What a handler keeps does not keep the buffers of the
// connection, and a goroutine that it left behind cannot reach them.
func (w *response) finished() {
	w.stage = finished
	w.conn = nil
}

// taken is the connection that a handler took over.
type taken struct{ net.Conn }

// fieldsSet is what the handler's fields said, noted when they were committed.
type fieldsSet struct {
	contentType, contentEncoding, date bool
	length, trailers                   bool
	fields                             int      // in the map
	coding                             string   // Transfer-Encoding
	connection                         []string // written only once it is known whether we close
}

func (w *response) init(c *conn, x *exchange, minor int, persistent bool) {
	w.x, w.conn = x, c
	c.set = fieldsSet{}
	w.length = -1
	w.minor = uint8(minor)
	w.head = x.request.Method == http.MethodHead
	w.keep10 = minor == 0 && persistent
	w.close = minor > 0 && !persistent
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
	case w.taken.Load() != nil:
		w.logMisuse("response.WriteHeader on hijacked connection")
		return
	case w.stage != open:
		w.logMisuse("superfluous response.WriteHeader call")
		return
	case code < 100 || code > 999:
		panic(fmt.Sprintf("invalid WriteHeader code %v", code)) // the handler's bug; net/http's words
	case code < 200 && code != http.StatusSwitchingProtocols:
		w.inform(code)
		return
	}
	w.commit(code)
}

// inform writes an interim response.
func (w *response) inform(code int) {
	if code == http.StatusContinue {
		w.x.body.dropContinue()
	}
	c := w.conn
	if !c.protocol.inform(w, code) {
		return
	}
	w.appendFields(true)
	c.out = http1.AppendHeadEnd(c.out)
	_ = c.flush()
}

// commit fixes the status and the handler's fields.
func (w *response) commit(code int) {
	w.withheld = w.x.body.dropContinue()
	w.stage, w.status = committed, uint16(code)
	w.noBody = !http1.BodyAllowed(code)
	if code == http.StatusSwitchingProtocols || code < 300 && w.x.request.Method == http.MethodConnect {
		w.close = true // what follows is a tunnel's; if nobody takes it over, it is nobody's
	}
	w.conn.headAt = len(w.conn.out)
	w.conn.protocol.start(w, code)
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
	case w.taken.Load() != nil:
		if len(p) > 0 {
			w.logMisuse("response.Write on hijacked connection")
		}
		return 0, http.ErrHijacked
	case w.stage == finished:
		return 0, errFinished
	case w.stage == open:
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
	if err := w.produce(p); err != nil {
		return 0, err
	}
	return len(p), nil
}

// WriteString implements io.StringWriter. A Write may not change what it is given,
// so the string's own bytes can be lent to it.
func (w *response) WriteString(s string) (int, error) {
	return w.Write(unsafe.Slice(unsafe.StringData(s), len(s)))
}

// produce appends p to the response, holding it back if it can.
func (w *response) produce(p []byte) error {
	c := w.conn
	if w.stage == committed && w.length >= 0 {
		w.frame(p, false)
	}
	if w.stage == framed && !w.chunked {
		return w.emit(p)
	}
	if len(c.held)+len(p) <= holdSize {
		c.held = append(c.held, p...)
		return c.writeErr
	}
	if w.stage == committed {
		w.frame(sniffable(c.held, p), false)
	}
	if err := w.emitHeld(); err != nil {
		return err
	}
	if len(p) < holdSize && w.chunked {
		c.held = append(c.held, p...)
		return nil
	}
	return w.emit(p)
}

// sniffable is the beginning of the body for http.DetectContentType.
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
	if len(c.held) == 0 {
		return c.writeErr
	}
	err := w.emit(c.held)
	poison(c.held)
	c.held = c.held[:0]
	return err
}

// emit appends body bytes to the output in their framing. Large ones are written
// from where they are.
func (w *response) emit(p []byte) error {
	c := w.conn
	if w.head || len(p) == 0 {
		return c.writeErr
	}
	return c.protocol.emit(w, p)
}

// finish completes the response after the handler has returned, and reports
// whether the connection can be used again.
func (w *response) finish() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.taken.Load() != nil {
		return false
	}
	c := w.conn
	c.current = nil
	if w.stage == open {
		w.commit(http.StatusOK)
	}
	if w.stage == committed {
		w.frame(c.held, true)
	}
	_ = w.emitHeld()
	short := !w.head && !w.noBody && w.length >= 0 && w.written != w.length && !w.x.body.marks.has(bodyAborted)
	if !short {
		c.protocol.end(w)
	}
	duplex := w.marks.has(fullDuplex)
	if w.close || short || duplex || w.marks.has(ownWriteDeadline) || !c.gathering() {
		_ = c.flush()
	}
	reuse := !w.close && !short && c.writeErr == nil && (!duplex || w.x.body.drain())
	w.finished()
	return reuse
}

// logMisuse names the handler's line that did what cannot be done.
func (w *response) logMisuse(what string) {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	frame, more := frames.Next()
	for more && strings.Contains(frame.Function, "/internal/engine.") {
		frame, more = frames.Next()
	}
	w.x.ctx.link.logf("http: %s from %s (%s:%d)", what, frame.Function, path.Base(frame.File), frame.Line)
}
