package exchange

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

	"github.com/tarehq/tare/internal/poison"
	"github.com/tarehq/tare/internal/wire/http1"
)

// stage is the progress of a response:
//
//	open ──WriteHeader, Write──▶ committed ──frame──▶ framed ──close──▶ finished
//
// A handler that returns without a Write passes through all stages at once.
type stage uint8

const (
	stageOpen stage = iota // the handler may still choose the status and set fields
	// status and fields are fixed and in Conn.Out; the framing is undecided
	stageCommitted
	stageFramed   // the head is complete; body bytes follow it
	stageFinished // the handler has returned
)

// errFinished is returned to goroutines that outlive their handler.
var errFinished = errors.New("http: response written after its handler returned")

// Response is the http.ResponseWriter. It appends to Conn.Out, first the head, once the handler
// commits to it, and then the body. While the length is unknown and the body small, the body waits
// in Conn.heldBody: the handler may return, and the length is then known.
type Response struct {
	x      *Exchange
	Conn   *Conn       // nil once finished
	fields http.Header // nil until Header is called

	Mu          sync.Mutex // goroutines that outlive the handler may still write
	stage       stage
	Minor       uint8 // the request's minor version
	Status      uint16
	IsHEAD      bool  // the request is a HEAD
	IsCONNECT   bool  // the request is a CONNECT of HTTP/1, whose connection is not kept
	ClosesConn  bool  // the connection closes after this response
	KeepsHTTP10 bool  // an HTTP/1.0 client requested a persistent connection
	Chunked     bool  // valid once framed
	NoBody      bool  // valid once committed: the status allows no body
	Flags       Flags // not guarded by Mu; here it needs no padding
	Length      int64 // declared or computed; -1 for unknown
	written     int64 // bytes that the handler has written

	hijacked atomic.Pointer[net.Conn] // set by Hijack; not guarded by Mu
}

// Flags are bits that are read without a lock.
type Flags struct{ bits atomic.Uint32 }

const (
	FullDuplex           = 1 << iota // EnableFullDuplex was called
	handlerReadDeadline              // the handler has set a read deadline
	HandlerWriteDeadline             // the handler has set a write deadline
	handlerReturned                  // the handler has returned
	LargeHead                        // the request's head is large: see Exchange.splitRequest
)

// Set sets a flag.
func (f *Flags) Set(flag uint32)   { f.bits.Or(flag) }
func (f *Flags) clear(flag uint32) { f.bits.And(^flag) }

// Has reports whether a flag is set.
func (f *Flags) Has(flag uint32) bool { return f.bits.Load()&flag != 0 }

// HasReturned reports whether the handler has returned.
func (w *Response) HasReturned() bool { return w.Flags.Has(handlerReturned) }

// close ends the response. The caller holds mu. A response that the handler keeps then does not
// keep the connection's buffers, and a goroutine that outlives the handler cannot reach them.
func (w *Response) close() {
	w.stage = stageFinished
	w.Conn = nil
}

// CheckUsable returns the error for using a response that was hijacked or has ended. The connection
// may by then serve another request, and on shards w.conn may serve another connection.
func (w *Response) CheckUsable() error {
	switch {
	case w.IsHijacked():
		return http.ErrHijacked
	case w.stage == stageFinished:
		return errFinished
	}
	return nil
}

// IsHijacked reports whether the handler has hijacked the connection.
func (w *Response) IsHijacked() bool { return w.hijacked.Load() != nil }

// FieldSummary records what the handler's fields contained when they were committed.
type FieldSummary struct {
	hasContentType, hasContentEncoding, hasDate bool
	hasLength, hasTrailers                      bool
	fieldCount                                  int // of the Header
	TransferEncoding                            string
	// values of Connection; written once it is decided whether the connection closes
	Connection []string
}

// Init prepares w for the response to x on c. minor is the minor version of the request, and
// persistent reports whether the client keeps the connection.
func (w *Response) Init(c *Conn, x *Exchange, minor int, persistent bool) {
	w.x, w.Conn = x, c
	c.Summary = FieldSummary{}
	w.Length = -1
	w.Minor = uint8(minor)
	w.IsHEAD = x.Request.Method == http.MethodHead
	w.KeepsHTTP10 = minor == 0 && persistent
	w.ClosesConn = minor > 0 && !persistent
	x.Body.isLast = !persistent
}

// Header implements http.ResponseWriter.
func (w *Response) Header() http.Header {
	if w.fields == nil {
		w.fields = make(http.Header)
	}
	return w.fields
}

func (w *Response) writeHeader(code int) {
	if w.mayCommit(code) {
		w.commit(code)
	}
}

// mayCommit reports whether code begins the final response. If not, it handles the call.
func (w *Response) mayCommit(code int) bool {
	switch {
	case w.IsHijacked():
		w.logMisuse("response.WriteHeader on hijacked connection")
		return false
	case w.stage != stageOpen:
		w.logMisuse("superfluous response.WriteHeader call")
		return false
	case code < 100 || code > 999:
		// the handler's bug; net/http's text
		panic(fmt.Sprintf("invalid WriteHeader code %v", code))
	case code < 200 && code != http.StatusSwitchingProtocols:
		w.sendInterim(code)
		return false
	}
	return true
}

// sendInterim sends an interim response.
func (w *Response) sendInterim(code int) {
	if code == http.StatusContinue {
		w.x.Body.endContinue(bodyContinued)
	}
	c := w.Conn
	if !c.traits.HasInterim || w.Minor == 0 { // HTTP/1.0 has no interim responses (RFC 9110, 15.2)
		return
	}
	c.sink.BeginHead(w, code)
	w.appendFields(true)
	w.endInterim()
}

// endInterim completes an interim response and sends it. Once the final head has begun, only HTTP/2
// can send one, and EndHead has done so.
func (w *Response) endInterim() {
	if w.Conn.sink.EndHead(w); w.stage == stageOpen {
		_ = w.Conn.Flush()
	}
}

// commit fixes the status and the handler's fields.
func (w *Response) commit(code int) {
	w.startHead(code)
	if w.fields != nil {
		w.appendFields(false)
	}
}

// startHead fixes the status.
func (w *Response) startHead(code int) {
	if w.x.Body.Mode != ByStream {
		w.withholdBody(code)
	}
	w.stage, w.Status = stageCommitted, uint16(code)
	w.NoBody = !http1.BodyAllowed(code)
	if code == http.StatusSwitchingProtocols {
		w.ClosesConn = true // the other protocol needs Hijack; no request can follow
	}
	w.Conn.responseStart = len(w.Conn.Out)
	w.Conn.sink.BeginHead(w, code)
}

// withholdBody makes Read of the body fail if the client waits for "100 Continue", which a final
// status has replaced. The client may never send the body.
func (w *Response) withholdBody(code int) {
	flags := uint32(bodyContinued | bodyWithheld)
	if code != http.StatusSwitchingProtocols {
		flags |= bodyClosed
	}
	w.x.Body.endContinue(flags)
}

// OpensTunnel reports whether a tunnel follows the head, not a body (RFC 9110, 9.3.6). What the
// handler writes is sent as it is.
func (w *Response) OpensTunnel() bool { return w.IsCONNECT && w.Status >= 200 && w.Status < 300 }

// StatusText returns the reason phrase of a status.
func StatusText(code int) string {
	if text := http.StatusText(code); text != "" {
		return text
	}
	return "status code " + strconv.Itoa(code)
}

// Write implements http.ResponseWriter.
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
		w.writeHeader(http.StatusOK)
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
	if w.IsHEAD || len(p) == 0 {
		return c.WriteErr
	}
	return c.sink.Data(w, p)
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
	if short || duplex || w.Flags.Has(HandlerWriteDeadline) || !c.canBatch() {
		_ = c.Flush()
	}
	reuse := !w.ClosesConn && !short && c.WriteErr == nil && (!duplex || w.x.Body.drain())
	if !reuse {
		w.drainLast()
	}
	w.close()
	return reuse
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

// logMisuse logs a misuse of the response with the handler's line.
func (w *Response) logMisuse(what string) {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	frame, more := frames.Next()
	for more && strings.Contains(frame.Function, "/internal/engine/exchange.") {
		frame, more = frames.Next()
	}
	w.x.ctx.transport.Logf("http: %s from %s (%s:%d)", what, frame.Function, path.Base(frame.File), frame.Line)
}
