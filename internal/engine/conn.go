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

// conn is a connection while it is served: its buffers, its parser, and what is
// being answered. It belongs to a goroutine that serves one connection after another:
// on the portable path each to its end (netconn.go), on shards each until it has
// nothing more to say (runner_linux.go).
//
// The goroutine that serves owns every field, but for those that a handler's other goroutines may reach: body.reading
// guards the input, requestContext.mu the read deadline, body.mu the watch, and response.mu the output.
type conn struct {
	*plan
	nc   net.Conn
	link link
	ctx  context.Context // parent of every request's

	// Read state. in[next:end] has been received and not been consumed.
	kept         []byte // the input buffer; in lies in it unless a head was large
	in           []byte
	next, end    int
	request      http1.Request
	params       params    // of FastCGI
	began        time.Time // reading the current request; valid iff plan.read > 0
	readDeadline time.Time // as last set; zero is none

	// Write state. out holds what has been produced and not been written.
	out         []byte
	held        []byte // body bytes held back while the framing is undecided
	pieces      [][]byte
	writeErr    error
	set         fieldsSet // of the current response
	headAt      int       // in out: where the current response begins, once it is committed
	begun       bool      // a part of the current response was written, its head included
	gathers     bool      // answers wait for the path to flush them, a few at a time
	seal        seal
	sendTimeout atomic.Int64 // a time.Duration in which the client must take something of what is sent; 0 is none
	stdout      int          // FastCGI: behind the header of the record that out ends in; 0 if none is open

	template *http.Request // what all requests of this connection have in common
	current  *exchange     // whose handler runs; guarded by its response's mutex while that does
	shown    *http.Request // its request, as the handler has it; nil while none runs

	onShard
}

func newConn(inSize int) *conn {
	c := &conn{kept: make([]byte, inSize), template: newTemplate()}
	c.in = c.kept
	return c
}

// newTemplate is a Request with what all have in common.
func newTemplate() *http.Request {
	return &http.Request{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
}

// reset makes c ready for another connection.
func (c *conn) reset() {
	poison(c.in[:c.end])
	c.in, c.next, c.end = c.kept, 0, 0
	c.request.Reset()
	c.params.Reset()
	c.out, c.held, c.stdout = c.out[:0], c.held[:0], 0
	c.seal.open()
	c.writeErr, c.began = nil, time.Time{}
	c.trim()
}

// link is what a conn asks of its path beyond net.Conn.
type link interface {
	// beginWatch starts looking out for the client's departure, which cancels x's
	// context. The body has been read, and its mu is held.
	beginWatch(x *exchange)
	// stopWatch ends that.
	stopWatch()
	// takeOver hands the connection to a handler: a net.Conn that the path is done
	// with.
	takeOver() (net.Conn, error)
	// context is the parent of the contexts of the connection's requests, for ever.
	context() context.Context
	// raw is the connection that the conn served when the link was its.
	raw() net.Conn
	// logf writes to the server's error log, for ever.
	logf(format string, args ...any)
}

// exchange runs the handler and finishes its response. It reports whether the
// connection can be used again.
func (c *conn) exchange(x *exchange) bool {
	c.setSendTimeout(c.stallTime)
	if c.write > 0 {
		c.setWriteDeadline(time.Now().Add(c.write))
	}
	c.current, c.begun = x, false
	if c.shown = &x.request; x.resp.marks.has(isLarge) {
		c.shown = x.separate()
	}
	c.handler.ServeHTTP(&x.resp, c.shown)
	x.resp.marks.set(isOver)
	reuse := false
	if x.resp.taken.Load() == nil {
		x.body.dismiss()
		reuse = x.resp.finish()
	}
	shown := c.shown
	c.shown = nil
	if x.resp.taken.Load() != nil {
		c.current = nil
		x.ctx.cancel(context.Canceled)
		return false
	}
	if x.ctx.cancel(context.Canceled) || x.body.mode != http1.NoBody {
		x.body.end(c)
	}
	if x.resp.marks.has(ownReadDeadline | ownWriteDeadline) { // none can be set after cancel
		c.restoreDeadlines()
	}
	if shown.MultipartForm != nil {
		_ = shown.MultipartForm.RemoveAll()
	}
	if !reuse && (x.body.remains() || c.next < c.end) {
		c.linger()
	}
	return reuse
}

// abort ends the exchange that a handler's panic, or runtime.Goexit in it, cut
// off. err is what recover returned.
func (c *conn) abort(err any) {
	c.seal.send() // answers to what came before this request

	if err != nil && err != http.ErrAbortHandler { //nolint:errorlint // compared as net/http does
		stack := make([]byte, 64<<10)
		stack = stack[:runtime.Stack(stack, false)]
		c.logf("http: panic serving %v: %v\n%s", c.template.RemoteAddr, err, stack)
	}
	x := c.current
	if x == nil {
		return
	}
	x.resp.marks.set(isOver)
	x.ctx.cancel(context.Canceled)
	if x.resp.taken.Load() != nil {
		c.current = nil
		return
	}
	x.body.dismiss()
	sent := x.resp.abandon()
	x.body.end(c)
	c.shown = nil
	if sent && (x.body.remains() || c.next < c.end) {
		c.linger() // or what was sent may be lost
	}
}

// fill receives more input, behind what is there.
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

// makeRoom moves what is left to the front, or into a buffer twice as large.
func (c *conn) makeRoom() {
	room := c.in
	if c.next == 0 {
		room = make([]byte, 2*len(c.in))
	}
	c.end = copy(room, c.in[c.next:c.end])
	c.next = 0
	c.in = room
}

// unknownDeadline is a readDeadline that equals none: the next one is set whatever it is.
func unknownDeadline() time.Time { return time.Unix(0, 1) }

func (c *conn) setReadDeadline(t time.Time) {
	if !t.Equal(c.readDeadline) {
		c.readDeadline = t
		_ = c.nc.SetReadDeadline(t) // a connection that cannot will fail to read
	}
}

// flush writes what has been produced, and tail behind it.
func (c *conn) flush(tail ...[]byte) error {
	if c.stdout > 0 {
		c.closeRecord()
	}
	out := c.out[c.seal.open():]
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
	c.out, c.headAt = c.out[:0], 0
	c.begun = c.begun || c.current != nil && c.current.resp.stage == framed
	if err != nil && c.writeErr == nil {
		c.writeErr = err
		if c.current != nil {
			c.current.ctx.cancel(context.Canceled)
		}
	}
	return err
}

// writePieces writes pieces that follow each other, with one system call where it can.
func writePieces(nc net.Conn, pieces [][]byte) error {
	if v, ok := nc.(interface{ writePieces([][]byte) error }); ok {
		return v.writePieces(pieces)
	}
	buffers := net.Buffers(pieces)
	_, err := buffers.WriteTo(nc)
	return err
}

// gathering reports whether a complete answer may wait in out.
func (c *conn) gathering() bool { return c.gathers && len(c.out) < outSize }

// trim gives up what a large request made of the buffers: a connection that waits
// holds no more than one that never was busy.
func (c *conn) trim() {
	if cap(c.request.Fields) > keptFields {
		c.request.Fields = nil
	}
	if cap(c.params.Params) > keptFields {
		c.params.Params = nil
	}
	if cap(c.out) > keptOut {
		c.out = nil
	}
}
