package engine

import (
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/internal/wire/http1"
)

// conn serves a connection: it holds the buffers, the parser and the state of the response. It
// belongs to a goroutine that serves one connection after another. On the goroutine path it serves
// each to its end (netconn.go). On shards it serves each until no more input has arrived
// (runner_linux.go).
//
// The serving goroutine owns every field, except those that a handler's other goroutines may reach.
// body.reading guards the input, requestContext.mu the read deadline, body.mu the departure watch,
// and response.mu the output.
type conn struct {
	*serveConfig
	nc        net.Conn
	transport transport
	ctx       context.Context // parent of every request's context

	// Read state. in[next:end] has been received and not yet consumed.
	inBuffer     []byte // the input buffer; in is part of it unless a head was large
	in           []byte
	next, end    int
	request      http1.Request
	fcgi         fcgiConn  // FastCGI's state
	requestStart time.Time // of the current request; valid if readTimeout > 0
	readDeadline time.Time // as last set; zero for none

	// Write state. out holds the bytes that have been produced and not yet written.
	out           []byte
	heldBody      []byte // body bytes that wait until the framing is decided
	pieces        [][]byte
	writeErr      error
	summary       fieldSummary // of the current response
	responseStart int          // offset in out of the current response, once it is committed
	partlySent    bool         // part of the current response, its head included, was written
	batches       bool         // responses may wait in out until several can be flushed together
	gate          flushGate
	// a time.Duration: how long the client may accept nothing; 0 for no limit
	sendTimeout atomic.Int64
	// FastCGI: offset of the content of the record that out ends in; 0 if none is open
	stdoutStart int

	template       *http.Request // what all requests of this connection share
	current        *exchange     // whose handler runs; its response's mutex guards it meanwhile
	handlerRequest *http.Request // the request that the handler received; nil while no handler runs

	shardState
}

func newConn(inSize int) *conn {
	c := &conn{inBuffer: make([]byte, inSize), template: newTemplate()}
	c.in = c.inBuffer
	return c
}

// newTemplate returns a Request with what all requests have in common.
func newTemplate() *http.Request {
	return &http.Request{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
}

// reset prepares c for another connection.
func (c *conn) reset() {
	poison(c.in[:c.end])
	c.in, c.next, c.end = c.inBuffer, 0, 0
	c.request.Reset()
	c.fcgi.Reset()
	c.out, c.heldBody, c.stdoutStart = c.out[:0], c.heldBody[:0], 0
	c.gate.open()
	c.writeErr, c.requestStart = nil, time.Time{}
	c.trim()
}

// transport is what a conn needs from the connection beneath it, besides net.Conn.
type transport interface {
	// watchDeparture starts to watch for the client's departure, which cancels x's context. The
	// body has been read, and the caller holds its mu.
	watchDeparture(x *exchange)
	// stopWatch stops the watch.
	stopWatch()
	// hijack hands the connection to a handler, as a net.Conn that the transport no longer
	// uses.
	hijack() (net.Conn, error)
	// context returns the parent of the contexts of the connection's requests. It stays valid
	// after the connection has ended.
	context() context.Context
	// raw returns the net.Conn beneath.
	raw() net.Conn
	// logf writes to the server's error log. It works after the connection has ended.
	logf(format string, args ...any)
}

// runExchange runs the handler and finishes its response. It reports whether the connection can be
// reused.
func (c *conn) runExchange(x *exchange) bool {
	c.setSendTimeout(c.defaultSendTimeout)
	if c.writeTimeout > 0 {
		c.setWriteDeadline(time.Now().Add(c.writeTimeout))
	}
	c.current, c.partlySent = x, false
	if c.handlerRequest = &x.request; x.resp.flags.has(largeHead) {
		c.handlerRequest = x.splitRequest()
	}
	c.handler.ServeHTTP(&x.resp, c.handlerRequest)
	x.resp.flags.set(handlerReturned)
	reuse := false
	if x.resp.hijacked.Load() == nil {
		x.body.release()
		reuse = x.resp.finish()
	}
	request := c.handlerRequest
	c.handlerRequest = nil
	if x.resp.hijacked.Load() != nil {
		c.current = nil
		x.ctx.cancel(context.Canceled)
		return false
	}
	if x.ctx.cancel(context.Canceled) || x.body.mode != http1.NoBody {
		x.body.end(c)
	}
	// no deadline can be set after cancel
	if x.resp.flags.has(handlerReadDeadline | handlerWriteDeadline) {
		c.restoreDeadlines()
	}
	if request.MultipartForm != nil {
		_ = request.MultipartForm.RemoveAll()
	}
	if !reuse && (x.body.hasRemainder() || c.next < c.end) {
		c.linger()
	}
	return reuse
}

// abortExchange ends an exchange whose handler has panicked or called runtime.Goexit. err is what
// recover returned.
func (c *conn) abortExchange(err any) {
	c.gate.send() // the responses to earlier requests

	if err != nil && err != http.ErrAbortHandler { //nolint:errorlint // compared as net/http does
		stack := make([]byte, 64<<10)
		stack = stack[:runtime.Stack(stack, false)]
		c.logf("http: panic serving %v: %v\n%s", c.template.RemoteAddr, err, stack)
	}
	x := c.current
	if x == nil {
		return
	}
	x.resp.flags.set(handlerReturned)
	x.ctx.cancel(context.Canceled)
	if x.resp.hijacked.Load() != nil {
		c.current = nil
		return
	}
	x.body.release()
	sent := x.resp.abandon()
	x.body.end(c)
	c.handlerRequest = nil
	if sent && (x.body.hasRemainder() || c.next < c.end) {
		c.linger() // else a reset may discard what was sent
	}
}

// fill receives more input and appends it to what has not been consumed.
func (c *conn) fill() error {
	if c.end == len(c.in) {
		c.makeRoom()
	}
	n, err := c.nc.Read(c.in[c.end:])
	c.end += n
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// makeRoom moves the unconsumed input to the front of the buffer, or into a buffer twice as large.
func (c *conn) makeRoom() {
	room := c.in
	if c.next == 0 {
		room = make([]byte, 2*len(c.in))
	}
	c.end = copy(room, c.in[c.next:c.end])
	c.next = 0
	c.in = room
}

// unknownDeadline returns a readDeadline that equals no other, so that the next deadline is always
// set.
func unknownDeadline() time.Time { return time.Unix(0, 1) }

func (c *conn) setReadDeadline(t time.Time) {
	if !t.Equal(c.readDeadline) {
		c.readDeadline = t
		_ = c.nc.SetReadDeadline(t) // if this fails, the next read fails, too
	}
}

// flush writes out, and then tail.
func (c *conn) flush(tail ...[]byte) error {
	if c.stdoutStart > 0 {
		c.closeRecord()
	}
	out := c.out[c.gate.open():]
	err := c.writeErr
	switch {
	case err != nil:
	case len(tail) == 0 && len(out) == 0:
	case len(tail) == 0:
		err = c.send(out)
	default:
		c.pieces = append(append(c.pieces[:0], out), tail...)
		err = c.sendPieces(c.pieces)
		clear(c.pieces)
	}
	poison(c.out)
	c.out, c.responseStart = c.out[:0], 0
	c.partlySent = c.partlySent || c.current != nil && c.current.resp.stage == stageFramed
	if err != nil && c.writeErr == nil {
		c.writeErr = err
		if c.current != nil {
			c.current.ctx.cancel(context.Canceled)
		}
	}
	return err
}

// writePieces writes pieces in order, with one system call where possible.
func writePieces(nc net.Conn, pieces [][]byte) error {
	if v, ok := nc.(interface{ writePieces([][]byte) error }); ok {
		return v.writePieces(pieces)
	}
	buffers := net.Buffers(pieces)
	_, err := buffers.WriteTo(nc)
	return err
}

// canBatch reports whether a complete response may wait in out.
func (c *conn) canBatch() bool { return c.batches && len(c.out) < outSize }

// trim drops buffers that a large request has grown. A connection that waits holds no more memory
// than one that was never busy.
func (c *conn) trim() {
	if cap(c.request.Fields) > keptFields {
		c.request.Fields = nil
	}
	if cap(c.fcgi.Params) > keptFields {
		c.fcgi.Params = nil
	}
	if cap(c.out) > keptOut {
		c.out = nil
	}
}
