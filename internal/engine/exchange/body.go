package exchange

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// Init prepares b, and the request of x for it. length is -1 if it is unknown. expects reports
// whether the client waits for "100 Continue".
func (b *Body) Init(x *Exchange, mode BodyMode, length int64, expects bool) {
	b.Exchange, b.Mode, b.Remaining, b.expectsContinue = x, mode, length, expects
	x.Request.Body, x.Request.ContentLength = b, length
	if mode == NoBody {
		b.Err, b.readToEnd = io.EOF, true
		x.Request.Body = http.NoBody
	}
}

// Read implements io.Reader. Each call reads from the network at most once.
func (b *Body) Read(p []byte) (int, error) {
	if b.expectsContinue {
		b.sendContinue()
	}
	b.reading.Lock()
	defer b.reading.Unlock()
	if b.flags.Has(bodyClosed | bodyInterrupted) {
		return 0, http.ErrBodyReadAfterClose
	}
	return b.readLocked(p)
}

// Close implements io.Closer. As in net/http, it reads a small remainder, unless the client sends
// no other request: a client may send everything before it reads, and a handler that hijacks the
// connection expects what follows the body. Over FastCGI the web server reads at any time.
func (b *Body) Close() error {
	b.flags.Set(bodyClosed)
	switch {
	case b.Mode == ByStream:
		b.Exchange.ctx.transport.(Stream).CloseBody()
	case b.Mode == NoBody || b.Exchange.Extras != nil || b.Mode == ByLength && b.isLast:
	case !b.expectsContinue || b.flags.Has(bodyContinued) && !b.flags.Has(bodyWithheld):
		return b.closeRead()
	}
	return nil
}

// closeRead reads the remainder for Close. If the handler returns meanwhile, its Conn continues.
func (b *Body) closeRead() (err error) {
	b.reading.Lock()
	defer b.reading.Unlock()
	if b.Err != nil || b.flags.Has(bodyInterrupted|bodyTooLong) {
		return nil
	}
	b.closing = true
	if b.discard(); !b.atEnd() {
		err = b.Err
	}
	b.closing = false
	if IsTimeout(err) && b.flags.Has(bodyInterrupted) {
		b.Err = nil
	}
	return err
}

// discard reads the remainder if it is small. The caller holds reading.
func (b *Body) discard() {
	if b.Mode == ByLength && b.Remaining > maxDrain {
		b.flags.Set(bodyTooLong)
		return
	}
	b.deadlineSet = false
	_, _ = io.CopyN(io.Discard, remainder{b}, maxDrain+1) // the result is in b.Err
	switch {
	case b.atEnd():
		b.flags.Set(bodyClosed) // a handler that reads on must not take this for the body's end
	case b.Err == nil:
		b.flags.Set(bodyTooLong)
	}
}

func (b *Body) readLocked(p []byte) (n int, err error) {
	if b.Err != nil {
		return 0, b.Err
	}
	if len(p) == 0 {
		return 0, nil
	}
	if b.Mode == ByLength {
		n, err = b.readLength(p)
	} else {
		n, err = b.Exchange.Conn().source.ReadBody(b, p)
	}
	if b.Err = err; b.atEnd() {
		b.reachedEnd()
	}
	return n, err
}

// reachedEnd is called by the goroutine that has read the body to its end. It reads the connection
// no more.
func (b *Body) reachedEnd() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.readToEnd = true
	if b.wantsWatch && !b.noWatch {
		b.startWatch()
	}
}

// startWatch starts the departure watch. Streams of HTTP/2 need none: their session ends their
// contexts. The caller holds mu.
func (b *Body) startWatch() {
	x := b.Exchange
	conn, ok := x.ctx.transport.(Connection)
	switch {
	case !ok:
	case x.Extras != nil && x.Extras.StartWatch(x.Conn()):
		x.Abort()
	default:
		conn.WatchDeparture(x)
	}
}

// readLength reads the input buffer first, and then directly into p, so that a body is copied only
// once. The end of a last body is read with what follows it, such as a line end that some clients
// send, or another request: left unread, that would reset the connection, and the client could lose
// the response.
func (b *Body) readLength(p []byte) (int, error) {
	c := b.Exchange.Conn()
	if int64(len(p)) > b.Remaining {
		p = p[:b.Remaining]
	}
	if (b.isLast || !c.Config.KeepsConnections()) && len(c.Input()) == 0 {
		if b.Remaining < int64(c.conns.inSize) {
			if err := b.Fill(); err != nil {
				return 0, err
			}
		} else if int64(len(p)) == b.Remaining {
			p = p[:len(p)-1]
		}
	}
	n := copy(p, c.Input())
	c.Consume(n)
	var err error
	if n == 0 {
		n, err = b.ReadDirectly(p)
	}
	if b.Remaining -= int64(n); b.Remaining == 0 {
		return n, io.EOF
	}
	return n, err
}

// releaseUnused releases the input buffer of a connection whose response has become a stream, if
// nothing but the request has arrived. A later read of the connection borrows another. A departure
// watch that begins holds mu while it looks at the input.
func (b *Body) releaseUnused(c *Conn) {
	if !c.conns.batches || c.in == nil || !b.reading.TryLock() {
		return
	}
	defer b.reading.Unlock()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.atEnd() && len(c.Input()) == 0 {
		c.releaseInput()
	}
}

// ReadDirectly reads from the connection. The input buffer is empty, and is not used.
func (b *Body) ReadDirectly(p []byte) (int, error) {
	b.BoundRead()
	n, err := b.Exchange.Conn().Connection.Read(p)
	return n, b.ReadFailed(err)
}

// ReadFailed is called with the result of reading the connection. Any error except a timeout means
// that the client has left.
func (b *Body) ReadFailed(err error) error {
	if err == nil || IsTimeout(err) {
		return err
	}
	b.Exchange.ctx.cancel(context.Canceled)
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// Fill receives more input while the body is being read.
func (b *Body) Fill() error {
	b.BoundRead()
	return b.ReadFailed(b.Exchange.Conn().Fill())
}

// BoundRead sets the deadline for reading the request when a read may block for the first time. The
// context's mutex guards against a handler that sets a deadline of its own.
func (b *Body) BoundRead() {
	if b.deadlineSet {
		return
	}
	b.deadlineSet = true
	c := b.Exchange.Conn()
	var deadline time.Time
	timeout := c.Config.ReadTimeout
	if timeout > 0 {
		deadline = c.RequestStart.Add(timeout)
	}
	if b.Draining || b.closing {
		if soon := time.Now().Add(drainTime); timeout <= 0 || soon.Before(deadline) {
			deadline = soon
		}
	}
	b.Exchange.ctx.mu.Lock()
	defer b.Exchange.ctx.mu.Unlock()
	switch {
	case !b.Draining && b.flags.Has(bodyInterrupted):
		c.SetReadDeadline(PastTime())
	case b.Draining || !b.Exchange.Response.Flags.Has(handlerReadDeadline):
		c.SetReadDeadline(deadline)
	}
}

// PastTime returns a deadline that ends a Read.
func PastTime() time.Time { return time.Unix(1, 0) }

// IsPast reports whether a deadline has passed; a zero one never does.
func IsPast(t time.Time) bool { return !t.IsZero() && !time.Now().Before(t) }

// release is called when the handler has returned. It ends a Read of another goroutine of the
// handler, which would delay the response until the client sends more.
func (b *Body) release() {
	if b.Exchange.Extras != nil { // startWatch uses the response's Conn, which finish detaches
		b.mu.Lock()
		b.noWatch = true
		b.mu.Unlock()
	}
	if b.Mode == NoBody {
		return
	}
	b.flags.Set(bodyClosed)
	b.claimInput()
	b.reading.Unlock()
}

// claimInput locks reading. A goroutine that waits for the client meanwhile gives up.
func (b *Body) claimInput() {
	b.flags.Set(bodyInterrupted)
	if b.reading.TryLock() {
		return
	}
	b.Exchange.ctx.mu.Lock() // see BoundRead
	_ = b.Exchange.ctx.transport.SetReadDeadline(PastTime())
	b.Exchange.ctx.mu.Unlock()
	b.reading.Lock()
}

// sendContinue sends the interim response that the client waits for before it sends its body,
// unless a response has been sent.
func (b *Body) sendContinue() {
	if b.flags.Has(bodyClosed | bodyContinued) {
		return
	}
	w := &b.Exchange.Response
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if w.CheckUsable() == nil && !w.Conn.partlySent && b.endContinue(bodyContinued) {
		w.Conn.sink.BeginHead(w, http.StatusContinue)
		w.endInterim() // the response fails with the same error
	}
}

// endContinue is called when the client receives "100 Continue" or a final response. It reports
// whether the client was still waiting, and sets flags then. The caller holds the response's mutex.
func (b *Body) endContinue(flags uint32) bool {
	waiting := b.expectsContinue && !b.flags.Has(bodyContinued)
	if waiting {
		b.flags.Set(flags)
	}
	return waiting
}

// drain reads the remainder, so that the connection can be reused, and so that a client that sends
// everything before it reads does not block. It reports whether it reached the end.
func (b *Body) drain() bool {
	if b.Mode == ByStream {
		return true
	}
	if b.Exchange.Response.HasReturned() { // the context must end first: the client may take its time
		b.Exchange.ctx.cancel(context.Canceled)
	}
	b.reading.Lock()
	defer b.reading.Unlock()
	if b.Err == nil && !b.flags.Has(bodyTooLong) {
		b.Draining = true
		b.discard()
	}
	return b.atEnd() || b.Mode == ByRecords && b.Err == nil
}

// remainder is the reader that drain discards. io.Discard provides the buffers.
type remainder struct{ body *Body }

func (r remainder) Read(p []byte) (int, error) { return r.body.readLocked(p) }

// HasArrived reports whether the rest of the body can be read without waiting, or, if whole is not
// set, any part of it. The caller holds reading, or the handler does not run yet.
func (b *Body) HasArrived(whole bool) bool {
	c := b.Exchange.Conn()
	switch {
	case b.Mode == NoBody:
		return true
	case b.Mode != ByLength:
		return c.source.HasArrived(b, whole)
	case whole:
		return !b.expectsContinue && b.Remaining <= int64(len(c.Input()))
	}
	return b.Remaining > 0 && len(c.Input()) > 0
}

func (b *Body) HasWhole() bool { return b.mayRead(true) }
func (b *Body) HasInput() bool { return b.mayRead(false) }

// mayRead is HasArrived while the handler runs and no other goroutine reads.
func (b *Body) mayRead(whole bool) bool {
	if !b.reading.TryLock() {
		return false
	}
	defer b.reading.Unlock()
	return !b.flags.Has(bodyClosed|bodyInterrupted) && b.Err == nil && b.HasArrived(whole)
}

func (b *Body) FramingLength() (n int64, ok bool) {
	if b.Mode != ByChunks {
		return 0, true
	}
	if !b.reading.TryLock() {
		return 0, false
	}
	defer b.reading.Unlock()
	if b.flags.Has(bodyClosed | bodyInterrupted) { // the connection may serve another request
		return 0, false
	}
	return b.Exchange.Conn().source.(interface{ FramingLength() int64 }).FramingLength(), true
}

// atEnd reports whether the body has been read to its end, which may be an abort. The caller holds
// reading.
func (b *Body) atEnd() bool {
	return b.Err != nil && (errors.Is(b.Err, io.EOF) || b.flags.Has(bodyAborted))
}

// watchDeparture starts to watch for the client's departure, now or when the body has been read.
func (b *Body) watchDeparture() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.noWatch || b.wantsWatch {
		return
	}
	if b.wantsWatch = true; b.readToEnd {
		b.startWatch()
	}
}

// stopWatch ends the departure watch and prevents another. From then on only the serving goroutine
// uses the connection.
func (b *Body) stopWatch(c *Conn) {
	b.mu.Lock()
	b.noWatch = true
	watched := b.wantsWatch
	b.mu.Unlock()
	if watched && c.Connection != nil {
		c.Connection.StopWatch()
	}
}

func (b *Body) hasRemainder() bool {
	if b.Mode == NoBody || b.Mode == ByStream {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.readToEnd
}

// mayContinue reports whether the client may still be sending the body. ByRecords, Remaining is 0
// until the record that ends it has arrived.
func (b *Body) mayContinue() bool {
	return b.hasRemainder() || b.Mode == ByRecords && b.Remaining == 0
}

// IsTimeout reports whether err is that of a deadline that has passed.
func IsTimeout(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}
