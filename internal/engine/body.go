package engine

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/tarehq/tare/internal/wire/http1"
)

// body is a request's body. Different goroutines of a handler may read it, use the context, write
// the response and hijack the connection at the same time. Two mutexes separate them. The goroutine
// that reads the connection holds reading, perhaps for as long as the client sends nothing. No
// goroutine holds mu while it waits.
type body struct {
	x         *exchange
	reading   sync.Mutex   // guards the fields up to mu, and the connection's input
	remaining int64        // bytes, of a body with a length
	decoder   *bodyDecoder // of a chunked body, and of any FastCGI body
	err       error        // sticky; io.EOF once all has been read

	mu         sync.Mutex
	readToEnd  bool // read to its end; a departure watch may then read the connection
	wantsWatch bool // start a departure watch at the body's end
	noWatch    bool // the exchange is over, or the connection was hijacked
	endPending bool // FastCGI: a goroutine reads the record that ends the body

	// the client waits for "100 Continue" before it sends the body; never changes
	expectsContinue bool
	mode            http1.Mode // never changes
	deadlineSet     bool       // the read deadline of this exchange is set; guarded by reading
	draining        bool       // the handler has returned; guarded by reading
	interrupted     bool       // a deadline has ended a Read; guarded by reading

	flags flags
}

// Flags of a body.
const (
	bodyClosed      = 1 << iota // the handler has closed it or has returned
	bodyInterrupted             // a Read that waits must return
	bodyContinued               // the client has received "100 Continue" or a final response
	// FastCGI: the web server has aborted the request and expects only END_REQUEST
	bodyAborted
)

const continueLine = "HTTP/1.1 100 Continue\r\n\r\n"

func (b *body) init(x *exchange, f http1.Framing, expects bool) {
	b.x, b.mode, b.remaining, b.expectsContinue = x, f.Mode, f.Length, expects
	if f.Mode == http1.ByChunks {
		b.decoder = new(bodyDecoder)
	}
	if f.Mode == http1.NoBody {
		b.err, b.readToEnd = io.EOF, true
	}
}

// Read implements io.Reader. Each call reads from the network at most once.
func (b *body) Read(p []byte) (int, error) {
	if b.expectsContinue && len(p) > 0 {
		b.sendContinue()
	}
	b.reading.Lock()
	defer b.unlock()
	if b.flags.has(bodyClosed | bodyInterrupted) {
		return 0, http.ErrBodyReadAfterClose
	}
	return b.readLocked(p)
}

// Close implements io.Closer. Whether the remainder is read is decided when the handler returns.
func (b *body) Close() error {
	b.flags.set(bodyClosed)
	return nil
}

func (b *body) readLocked(p []byte) (n int, err error) {
	if b.err != nil {
		return 0, b.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	switch b.mode {
	case http1.ByLength:
		n, err = b.readLength(p)
	case http1.ByChunks:
		n, err = b.readChunks(p)
	default:
		n, err = b.readRecords(p)
	}
	if b.err = err; b.atEnd() {
		b.reachedEnd()
	}
	return n, err
}

// reachedEnd is called by the goroutine that has read the body to its end. It reads the connection
// no more.
func (b *body) reachedEnd() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.readToEnd = true
	if b.wantsWatch && !b.noWatch {
		b.x.ctx.transport.watchDeparture(b.x)
	}
}

// readLength reads the input buffer first, and then directly into p, so that a body is copied only
// once.
func (b *body) readLength(p []byte) (int, error) {
	c := b.x.conn()
	if int64(len(p)) > b.remaining {
		p = p[:b.remaining]
	}
	n := copy(p, c.in[c.next:c.end])
	c.next += n
	var err error
	if n == 0 {
		b.boundRead()
		n, err = c.nc.Read(p)
	}
	if b.remaining -= int64(n); b.remaining == 0 {
		return n, io.EOF
	}
	return n, b.readFailed(err)
}

// readFailed is called with the result of reading the connection. Any error except a timeout means
// that the client has left.
func (b *body) readFailed(err error) error {
	if err == nil || isTimeout(err) {
		return err
	}
	b.x.ctx.clientLeft()
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (b *body) readChunks(p []byte) (int, error) {
	c := b.x.conn()
	for {
		if b.decoder.chunks.Done() {
			if err := b.readTrailer(); err != nil {
				return 0, err
			}
			return 0, io.EOF
		}
		in := c.in[c.next:c.end]
		if len(in) > len(p) { // so that all data of one call fits p
			in = in[:len(p)]
		}
		data, n, err := b.decoder.chunks.Next(in)
		c.next += n
		if err != nil {
			return 0, err
		}
		if len(data) > 0 {
			return copy(p, data), nil
		}
		if c.next == c.end {
			if err := b.fill(); err != nil {
				return 0, err
			}
		}
	}
}

// readTrailer reads the trailer section into Request.Trailer.
func (b *body) readTrailer() error {
	c := b.x.conn()
	r := c.handlerRequest
	var t http1.Trailer
	for {
		in := c.in[c.next:c.end]
		complete, err := t.Parse(in, http1.Limits{Bytes: maxTrailerBytes, Fields: maxTrailerFields})
		if err != nil {
			return err
		}
		if complete {
			section := http1.TextOf(in[:t.Size])
			c.next += t.Size
			for _, f := range t.Fields {
				if r.Trailer == nil {
					r.Trailer = make(http.Header, len(t.Fields))
				}
				r.Trailer.Add(section.Of(f.Name), section.Of(f.Value))
			}
			return nil
		}
		if err := b.fill(); err != nil {
			return err
		}
	}
}

func (b *body) fill() error {
	c := b.x.conn()
	if c.next == c.end {
		c.next, c.end = 0, 0
	}
	b.boundRead()
	return b.readFailed(c.fill())
}

// boundRead sets the deadline for reading the request when a read may block for the first time. The
// context's mutex guards against a handler that sets a deadline of its own.
func (b *body) boundRead() {
	if b.deadlineSet {
		return
	}
	b.deadlineSet = true
	c := b.x.conn()
	var deadline time.Time
	if c.readTimeout > 0 {
		deadline = c.requestStart.Add(c.readTimeout)
	}
	if b.draining {
		if soon := time.Now().Add(drainTime); c.readTimeout <= 0 || soon.Before(deadline) {
			deadline = soon
		}
	}
	b.x.ctx.mu.Lock()
	defer b.x.ctx.mu.Unlock()
	switch {
	case b.draining:
		c.readDeadline = unknownDeadline() // the handler may have set another
		c.setReadDeadline(deadline)
	case b.flags.has(bodyInterrupted):
		c.setReadDeadline(pastTime())
	case !b.x.resp.flags.has(handlerReadDeadline):
		c.setReadDeadline(deadline)
	}
}

// pastTime returns a deadline that ends a Read.
func pastTime() time.Time { return time.Unix(1, 0) }

// release is called when the handler has returned. It ends a Read of another goroutine of the
// handler, which would delay the response until the client sends more.
func (b *body) release() {
	if b.mode == http1.NoBody {
		return
	}
	b.flags.set(bodyClosed)
	b.claimInput()
	b.reading.Unlock()
}

// claimInput locks reading. A goroutine that waits for the client meanwhile gives up.
func (b *body) claimInput() {
	b.flags.set(bodyInterrupted)
	if b.reading.TryLock() {
		return
	}
	c := b.x.conn()
	b.x.ctx.mu.Lock() // see boundRead
	_ = c.nc.SetReadDeadline(pastTime())
	b.x.ctx.mu.Unlock()
	b.reading.Lock()
	b.interrupted = true
}

// sendContinue sends the interim response that the client waits for before it sends its body,
// unless a response has been sent.
func (b *body) sendContinue() {
	if b.flags.has(bodyClosed | bodyContinued) {
		return
	}
	w := &b.x.resp
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.checkUsable() == nil && b.endContinue() {
		_ = w.conn.send([]byte(continueLine)) // the response fails with the same error
	}
}

// endContinue is called when a final response begins. It reports whether the client was still
// waiting. If so, it is unknown whether it will send the body. The caller holds the response's
// mutex.
func (b *body) endContinue() bool {
	waiting := b.expectsContinue && !b.flags.has(bodyContinued)
	if waiting {
		b.flags.set(bodyContinued)
	}
	return waiting
}

// drain reads the remainder, so that the connection can be reused, and so that a client that sends
// everything before it reads does not block. It reports whether it reached the end.
func (b *body) drain() bool {
	b.reading.Lock()
	defer b.reading.Unlock()
	if b.remaining >= maxDrain && b.mode != http1.UntilClose {
		return false
	}
	if b.err == nil {
		b.draining, b.deadlineSet = true, false
		_, _ = io.CopyN(io.Discard, remainder{b}, maxDrain) // the result is in b.err
	}
	if b.mode == http1.UntilClose {
		return b.drainRecords()
	}
	return b.atEnd()
}

// remainder is the reader that drain discards. io.Discard provides the buffers.
type remainder struct{ *body }

func (r remainder) Read(p []byte) (int, error) { return r.readLocked(p) }

// hasArrived reports whether the whole body can be read without waiting.
func (b *body) hasArrived() bool {
	switch b.mode {
	case http1.NoBody:
		return true
	case http1.ByLength:
		return !b.expectsContinue && b.remaining <= int64(b.x.conn().end-b.x.conn().next)
	case http1.UntilClose:
		return b.recordsArrived()
	}
	return false
}

// atEnd reports whether the body has been read to its end, which in FastCGI may be an abort. The
// caller holds reading.
func (b *body) atEnd() bool { return errors.Is(b.err, io.EOF) || errors.Is(b.err, ErrAborted) }

// watchDeparture starts to watch for the client's departure, now or when the body has been read.
func (b *body) watchDeparture() {
	b.mu.Lock()
	first := !b.noWatch && !b.wantsWatch
	if first {
		b.wantsWatch = true
		if b.readToEnd {
			b.x.ctx.transport.watchDeparture(b.x)
		}
	}
	b.mu.Unlock()
	// otherwise the goroutine that reads will call unlock
	if first && b.mode == http1.UntilClose && b.reading.TryLock() {
		b.unlock()
	}
}

// unlock unlocks reading. If a departure watch is wanted and only the record that ends a FastCGI
// body is missing, unlock has it read.
func (b *body) unlock() {
	if b.mode != http1.UntilClose {
		b.reading.Unlock()
		return
	}
	readEnd := b.lacksOnlyEnd()
	b.reading.Unlock()
	b.mu.Lock()
	readEnd = readEnd && b.wantsWatch && !b.endPending && !b.noWatch
	b.endPending = b.endPending || readEnd
	b.mu.Unlock()
	if readEnd {
		go b.readEndRecord()
	}
}

// stopWatch ends the departure watch and prevents another.
func (b *body) stopWatch(c *conn) {
	b.mu.Lock()
	b.noWatch = true
	watched := b.wantsWatch
	b.mu.Unlock()
	if watched {
		c.transport.stopWatch()
	}
}

// resume undoes claimInput and stopWatch after Hijack has failed. A Read that was interrupted has
// returned its error, but the next one may continue.
func (b *body) resume(c *conn) {
	b.flags.clear(bodyInterrupted)
	if b.interrupted {
		b.interrupted, b.deadlineSet = false, false
		c.readDeadline = unknownDeadline()
	}
	if isTimeout(b.err) {
		b.err = nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.noWatch = false; b.readToEnd && b.wantsWatch {
		b.x.ctx.transport.watchDeparture(b.x)
	}
}

// end is called when the handler has returned. From then on Read fails, and only the serving
// goroutine uses the connection.
func (b *body) end(c *conn) {
	b.stopWatch(c)
	if b.interrupted {
		c.readDeadline = unknownDeadline()
	}
}

// hasRemainder reports whether the body has not been read to its end.
func (b *body) hasRemainder() bool {
	if b.mode == http1.NoBody {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.readToEnd
}
