package exchange

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/internal/connection"
	"github.com/tarehq/tare/internal/poison"
)

// Conn serves a connection: it holds the buffers, the codec and the state of the response. A
// connection borrows one while it is served, and a goroutine that hands the connection to another
// hands its Conn with it. It is lent until the connection ends (package netconn), or waits for a
// request (package shard).
//
//	unused ──Attach──▶ attached ──Put──▶ unused
//	attached ──Shrink──▶ waits for the rest of a head, with a small buffer
//
// The serving goroutine owns every field, except those that a handler's other goroutines may reach.
// Body.reading guards the input, requestContext.mu the read deadline, Body.mu the departure watch,
// and Response.Mu the output.
type Conn struct {
	Config     *Config // never changes
	conns      *Conns  // never changes
	Codec      Codec   // nil for a stream of HTTP/2, as is Connection
	source     Source  // of the request's body
	sink       Sink    // of the response
	traits     Traits  // of the protocol
	Connection Connection
	transport  Transport // the Connection, or the stream

	// Read state; see Input.
	in           []byte
	next, end    int
	RequestStart time.Time // of the current request; valid if Config.ReadTimeout > 0

	// Write state. Out holds the bytes that have been produced and not yet written.
	Out           []byte
	heldBody      []byte // body bytes that wait until the framing is decided
	holdSize      int    // how many may wait
	pieces        [][]byte
	WriteErr      error
	Summary       FieldSummary // of the current response
	responseStart int          // offset in Out of the current response, once it is committed
	partlySent    bool         // part of the current response, its head included, was written
	Lingers       bool         // Linger must be called before the connection is closed
	linger        lingerLimits // of the current request
	Gate          FlushGate
	// a time.Duration: how long the client may accept nothing; 0 for no limit
	sendTimeout atomic.Int64

	Template       *http.Request // what all requests of this connection share
	current        *Exchange     // the exchange whose handler runs; guarded by its response's mutex meanwhile
	handlerRequest *http.Request // the request that the handler received; nil while no handler runs

	begin func(end func(why any)) // begin of Response.TrySender, while the response is detached
	why   any                     // the panic that ended it, or nil
}

// Conns is a free list of conns for the connections or streams of a Config.
type Conns struct {
	config  *Config
	inSize  int
	batches bool
	inputs  connection.Buffers
	conns   sync.Pool // of *Conn
}

// NewConns returns an empty list. The conns have input buffers of inSize bytes; those of streams
// have none. batches reports that complete responses may wait in Out, and that the caller flushes
// them. Only the goroutine that serves such a conn uses its input.
func NewConns(p *Config, inSize int, batches bool) *Conns {
	return &Conns{config: p, inSize: inSize, batches: batches}
}

// Get returns a conn for Attach or AttachStream.
func (l *Conns) Get() *Conn {
	if c, ok := l.conns.Get().(*Conn); ok {
		return c
	}
	p := l.config.Protocol
	return &Conn{Config: l.config, conns: l, traits: p.Traits, holdSize: cmp.Or(p.HoldSize, holdSize)}
}

// Put takes back a conn that serves nothing any more, and prepares it for another connection.
func (l *Conns) Put(c *Conn) {
	poison.Fill(c.in)
	c.next, c.end = 0, 0
	c.Out, c.heldBody = c.Out[:0], c.heldBody[:0]
	c.Gate.Open()
	c.WriteErr, c.Lingers = nil, false
	c.Connection, c.transport, c.begin = nil, nil, nil
	if c.Codec != nil {
		c.Codec.Reset()
	} else { // c served a stream, or a connection that was hijacked
		c.source, c.sink, c.Template = nil, nil, nil
	}
	c.Trim()
	l.conns.Put(c)
}

// GetInput returns an input buffer, with any content.
func (l *Conns) GetInput() []byte { return l.inputs.Get(l.inSize) }

// PutInput takes back an input buffer that nothing refers to any more.
func (l *Conns) PutInput(b []byte) { l.inputs.Put(b) }

// Attach makes c serve a connection.
func (c *Conn) Attach(to Connection, remote string) {
	if c.Codec == nil {
		codec := c.Config.Protocol.NewCodec()
		c.Codec, c.source, c.sink = codec, codec, codec
		c.Template = &http.Request{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	}
	c.Connection, c.transport = to, to
	c.Template.RemoteAddr, c.Template.TLS = remote, nil
	if c.in == nil {
		c.in = c.conns.GetInput()
	}
	c.SetSendTimeout(c.Config.DefaultSendTimeout)
	c.linger = defaultLinger()
	c.StartRequest()
}

// AttachStream makes c serve the exchange of a stream.
func (c *Conn) AttachStream(to Stream, template *http.Request) {
	c.transport, c.source, c.sink, c.Template = to, to, to, template
	c.StartRequest()
}

// leastPartial is the smallest buffer for a head that arrives in pieces.
const leastPartial = 256

// Shrink moves the part of a head that c has received to a small buffer. The memory that a waiting
// connection holds is in proportion to what its client has sent.
func (c *Conn) Shrink() {
	c.Out, c.heldBody = nil, nil
	if size := max(leastPartial, 2*len(c.Input())); size < len(c.in) {
		c.moveInput(size)
	}
}

// ReleaseHijacked releases what a hijacked connection no longer needs, because its handler may run
// for long.
func (c *Conn) ReleaseHijacked() {
	c.releaseInput()
	c.Out, c.heldBody = nil, nil
	c.Codec, c.source, c.sink = nil, nil, nil
}

// Prepare prepares x for a request that c has received.
func (c *Conn) Prepare(x *Exchange) { x.Prepare(c.transport, c.Template) }

// RunExchange runs the handler and finishes its response. It reports whether the connection can be
// reused.
func (c *Conn) RunExchange(x *Exchange) bool {
	c.SetSendTimeout(c.Config.DefaultSendTimeout)
	c.linger = defaultLinger()
	if timeout := c.Config.WriteTimeout; timeout > 0 {
		c.SetWriteDeadline(time.Now().Add(timeout))
	}
	c.current, c.partlySent = x, false
	if c.handlerRequest = &x.Request; x.Response.Flags.Has(largeHead) {
		c.handlerRequest = x.splitRequest()
	}
	w := http.ResponseWriter(&x.Response)
	if c.traits.CanHijack {
		w = connResponse{&x.Response}
	}
	c.Config.Handler.ServeHTTP(w, c.handlerRequest)
	if c.IsDetached() {
		return false
	}
	return c.endExchange(x, false)
}

// IsDetached reports whether the handler has returned and has left its response unfinished.
func (c *Conn) IsDetached() bool { return c.begin != nil }

// endExchange ends an exchange whose handler has returned or was aborted. It reports whether the
// connection can be reused.
func (c *Conn) endExchange(x *Exchange, wasAborted bool) (isReusable bool) {
	w, b := &x.Response, &x.Body
	w.Flags.Set(handlerReturned)
	wasSent := true
	switch {
	case w.IsHijacked():
	case wasAborted:
		x.ctx.cancel(context.Canceled)
		b.release()
		wasSent = w.abandon()
	default:
		b.release()
		isReusable = w.finish()
	}
	request := c.handlerRequest
	c.handlerRequest = nil
	wasUsed := x.ctx.cancel(context.Canceled)
	if w.IsHijacked() {
		c.current = nil
		return false
	}
	if wasUsed {
		b.stopWatch(c)
	}
	// no deadline can be set after cancel
	if w.Flags.Has(handlerReadDeadline | HandlerWriteDeadline) {
		c.restoreDeadlines()
	}
	if request.MultipartForm != nil { // the handler has parsed a form
		_ = request.MultipartForm.RemoveAll()
	}
	if !isReusable {
		waits := b.mayContinue() || b.flags.Has(bodyEndsConn) || len(c.Input()) > 0 || c.linger.always
		c.Lingers = waits && wasSent && (c.Lingers || c.halfClose()) // else a reset may discard what was sent
	}
	return isReusable
}

// AbortExchange ends an exchange whose handler has panicked or called runtime.Goexit. err is what
// recover returned.
func (c *Conn) AbortExchange(err any) {
	c.Gate.Send() // the responses to earlier requests

	if err != nil && err != http.ErrAbortHandler { //nolint:errorlint // compared as net/http does
		c.Config.Server.LogPanic("serving", c.Template.RemoteAddr, err)
	}
	if c.current != nil {
		c.endExchange(c.current, true)
	}
}

// Flush writes the output.
func (c *Conn) Flush() error { return c.sink.Flush(c) }

// Send writes Out, which is complete, and then tail to the connection.
func (c *Conn) Send(tail ...[]byte) error {
	out := c.Out[c.Gate.Open():]
	err := c.WriteErr
	switch {
	case err != nil:
	case len(tail) == 0 && len(out) == 0:
	case len(tail) == 0:
		err = c.Connection.Send(out, c.CurrentSendTimeout())
	default:
		c.pieces = append(append(c.pieces[:0], out), tail...)
		err = c.Connection.SendPieces(c.pieces, c.CurrentSendTimeout())
		clear(c.pieces)
	}
	return c.EndFlush(err)
}

// EndFlush empties the output after a write that returned err.
func (c *Conn) EndFlush(err error) error {
	poison.Fill(c.Out)
	c.Out, c.responseStart = c.Out[:0], 0
	c.partlySent = c.partlySent || c.current != nil && c.current.Response.stage == stageFramed
	c.FailWrite(err)
	return err
}

// FailWrite makes all later writes fail if err is not nil. It also ends the context of the request:
// a handler whose Write fails may look there for the reason.
func (c *Conn) FailWrite(err error) {
	if err == nil || c.WriteErr != nil {
		return
	}
	c.WriteErr = err
	if c.current != nil {
		c.current.ctx.cancel(context.Canceled)
	}
}

// DropSent removes n bytes of the output, which is complete: they were sent.
func (c *Conn) DropSent(n int) {
	rest := copy(c.Out, c.Out[n:])
	poison.Fill(c.Out[rest:])
	c.Out, c.responseStart = c.Out[:rest], 0
}

// SetReadDeadline sets the deadline for reading until the next call.
func (c *Conn) SetReadDeadline(t time.Time) {
	_ = c.transport.SetReadDeadline(t) // if this fails, the next read fails, too
}

// SetWriteDeadline sets the deadline of all writes until the next call.
func (c *Conn) SetWriteDeadline(t time.Time) {
	_ = c.transport.SetWriteDeadline(t) // if this fails, the next write fails, too
}

// SetSendTimeout limits how long the client may accept nothing; 0 is no limit. It is called for each
// request, and seldom changes anything: a load costs less than a store.
func (c *Conn) SetSendTimeout(d time.Duration) {
	if c.CurrentSendTimeout() != d {
		c.sendTimeout.Store(int64(d))
	}
}

// CurrentSendTimeout returns how long the client may accept nothing; 0 is no limit.
func (c *Conn) CurrentSendTimeout() time.Duration { return time.Duration(c.sendTimeout.Load()) }

// The input of a Conn is in[next:end]: what has been received and not consumed. in comes from
// conns, unless a head was large or has waited. It is nil while the buffer is released.

// Input returns the input.
func (c *Conn) Input() []byte { return c.in[c.next:c.end] }

// Consume removes n bytes from the front of the input. A negative n puts back the last ones.
func (c *Conn) Consume(n int) { c.next += n }

func (c *Conn) moveInput(size int) {
	in := make([]byte, size)
	n := copy(in, c.Input())
	c.releaseInput()
	c.in, c.end = in, n
}

// releaseInput gives back the buffer. All input was consumed, or copied.
func (c *Conn) releaseInput() {
	poison.Fill(c.in)
	if len(c.in) == c.conns.inSize {
		c.conns.PutInput(c.in)
	}
	c.in, c.next, c.end = nil, 0, 0
}

// HasBegun reports whether a part of a head has arrived.
func (c *Conn) HasBegun() bool { return c.Codec.HasBegun(c.Input()) }

// Room returns the part of the buffer that follows the input, of at least a byte. If there is none,
// it moves the input to the front of the buffer, or into a buffer twice as large.
func (c *Conn) Room() []byte {
	switch {
	case c.in == nil:
		c.in = c.conns.GetInput()
	case c.next == c.end:
		c.next, c.end = 0, 0
	case c.end < len(c.in):
	case c.next > 0:
		c.next, c.end = 0, copy(c.in, c.Input())
	default:
		c.moveInput(2 * len(c.in))
	}
	return c.in[c.end:]
}

// Received appends to the input the first n bytes of what Room has returned.
func (c *Conn) Received(n int) { c.end += n }

// Fill receives more input.
func (c *Conn) Fill() error {
	n, err := c.Connection.Read(c.Room())
	c.Received(n)
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// Trim drops the buffers that a large request or response has grown, if there is no input. A
// connection that waits holds no more memory than one that was never busy.
func (c *Conn) Trim() {
	if c.next == c.end {
		if c.next, c.end = 0, 0; len(c.in) != c.conns.inSize {
			c.in = nil
		}
	}
	if cap(c.Out) > keptOut {
		c.Out = nil
	}
}

// StartRequest notes when a request begins, if there is a ReadTimeout.
func (c *Conn) StartRequest() {
	if c.RequestStart = (time.Time{}); c.Config.ReadTimeout > 0 {
		c.RequestStart = time.Now()
	}
}

// A client may still send when the last response has been sent. Closing at once would reset the
// connection, and the client would lose what it has not read yet. The server therefore ends its
// output only, and reads on for a while.

// lingerLimits limit this reading.
type lingerLimits struct {
	time    time.Duration // in all
	timeout time.Duration // while the client sends nothing
	always  bool          // also after a request that was read to its end
}

func defaultLinger() lingerLimits { return lingerLimits{lingerTime, lingerTimeout, false} }

// halfClose sends the output and its end. It reports whether the connection can linger.
func (c *Conn) halfClose() bool {
	if c.Flush() != nil || c.linger.time <= 0 || c.Connection == nil {
		return false
	}
	return c.Connection.CloseWrite() == nil
}

// Linger reads and discards what the client sends, if it may be sending, until it closes the
// connection or the limits are reached. Nothing else uses the input any more.
func (c *Conn) Linger() {
	if !c.Lingers {
		return
	}
	c.Lingers = false
	c.Consume(len(c.Input()))
	c.Trim() // a buffer for a part of a head would be small
	buffer, began := c.Room(), time.Now()
	for received := began; ; {
		limit := c.linger.time
		if c.Config.Server.Closing.Load() { // nothing that a client does holds up Shutdown
			limit = min(limit, lingerTimeout)
		}
		now := time.Now()
		left := min(limit-now.Sub(began), c.linger.timeout-now.Sub(received))
		if left <= 0 {
			return
		}
		c.SetReadDeadline(now.Add(min(left, lingerTimeout))) // to check whether the server is closing
		n, err := c.Connection.Read(buffer)
		switch {
		case n > 0:
			received = time.Now()
		case err != nil && !IsTimeout(err):
			return
		}
	}
}

// restoreDeadlines resets the deadlines that a handler has set. Output that still waits gets the
// server's own write timeout again.
func (c *Conn) restoreDeadlines() {
	c.SetReadDeadline(time.Time{})
	var write time.Time
	if timeout := c.Config.WriteTimeout; timeout > 0 {
		write = time.Now().Add(timeout)
	}
	c.SetWriteDeadline(write)
}
