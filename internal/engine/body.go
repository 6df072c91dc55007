package engine

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/tarehq/tare/internal/wire/http1"
)

// body is a request's body. Handlers may read it, ask for cancellation, write the response and take over the
// connection from different goroutines. Two mutexes keep these apart. reading is held by the goroutine that reads the
// connection, perhaps for as long as the client sends nothing. mu is never held while anything waits.
type body struct {
	x       *exchange
	reading sync.Mutex // guards what follows up to mu, and the connection's input
	left    int64      // of a body by length
	coded   *coded     // of a body by chunks, and of any in FastCGI's records
	err     error      // sticky; io.EOF once all was read

	mu        sync.Mutex
	done      bool // the body was read to its end; from then on a watch may read the connection
	wantWatch bool // start a watch once the body has been read
	over      bool // the exchange is over, or the connection was taken over: no watch begins
	ending    bool // of FastCGI: the end is waited for, or whoever reads will meet it

	expects  bool       // the client waits for "100 Continue" before it sends the body
	mode     http1.Mode // fixed, as is expects
	bounded  bool       // the read deadline of this exchange is set; guarded by reading
	draining bool       // the handler will read no more; guarded by reading
	evicted  bool       // a Read had to be ended, by a deadline; guarded by reading

	marks marks
}

// Marks of a body.
const (
	bodyClosed   = 1 << iota // by the handler, or it has returned
	bodyLeave                // a Read that still waits is to give up
	bodyContinue             // the client has got "100 Continue", or a final response
	bodyAborted              // FastCGI: the web server aborted the request; it awaits END_REQUEST, and no whole response
)

const continueLine = "HTTP/1.1 100 Continue\r\n\r\n"

func (b *body) init(x *exchange, f http1.Framing, expects bool) {
	b.x, b.mode, b.left, b.expects = x, f.Mode, f.Length, expects
	if f.Mode == http1.ByChunks {
		b.coded = new(coded)
	}
	if f.Mode == http1.NoBody {
		b.err, b.done = io.EOF, true
	}
}

// Read implements io.Reader. Each call makes at most one call to the network.
func (b *body) Read(p []byte) (int, error) {
	if b.expects && len(p) > 0 {
		b.sendContinue()
	}
	b.reading.Lock()
	defer b.unlock()
	if b.marks.has(bodyClosed | bodyLeave) {
		return 0, http.ErrBodyReadAfterClose
	}
	return b.readLocked(p)
}

// Close implements io.Closer. What is left of the body is read, or not, when the
// handler returns.
func (b *body) Close() error {
	b.marks.set(bodyClosed)
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
	if b.err = err; b.complete() {
		b.finished()
	}
	return n, err
}

// finished is called by the goroutine that has read the body to its end, and reads the connection no more.
func (b *body) finished() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.done = true
	if b.wantWatch && !b.over {
		b.x.ctx.link.beginWatch(b.x)
	}
}

// readLength reads past the input buffer once that is empty: a body is copied
// once, into the handler's own memory.
func (b *body) readLength(p []byte) (int, error) {
	c := b.x.conn()
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n := copy(p, c.in[c.next:c.end])
	c.next += n
	var err error
	if n == 0 {
		b.bound()
		n, err = c.nc.Read(p)
	}
	if b.left -= int64(n); b.left == 0 {
		return n, io.EOF
	}
	return n, b.lost(err)
}

// lost is called with what reading the connection returned: an error there means
// that the client has gone.
func (b *body) lost(err error) error {
	if err == nil || isTimeout(err) {
		return err
	}
	b.x.ctx.depart()
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func (b *body) readChunks(p []byte) (int, error) {
	c := b.x.conn()
	for {
		if b.coded.chunks.Done() {
			if err := b.readTrailer(); err != nil {
				return 0, err
			}
			return 0, io.EOF
		}
		in := c.in[c.next:c.end]
		if len(in) > len(p) { // take no more data than there is room for
			in = in[:len(p)]
		}
		data, n, err := b.coded.chunks.Next(in)
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
	r := c.shown
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
	b.bound()
	return b.lost(c.fill())
}

// bound sets the deadline for reading the request, the first time that reading it
// may block. The context's mutex keeps that apart from a handler that sets one of its own.
func (b *body) bound() {
	if b.bounded {
		return
	}
	b.bounded = true
	c := b.x.conn()
	var deadline time.Time
	if c.read > 0 {
		deadline = c.began.Add(c.read)
	}
	if b.draining {
		if soon := time.Now().Add(drainTime); c.read <= 0 || soon.Before(deadline) {
			deadline = soon
		}
	}
	b.x.ctx.mu.Lock()
	defer b.x.ctx.mu.Unlock()
	switch {
	case b.draining:
		c.readDeadline = unknownDeadline() // the handler may have set one
		c.setReadDeadline(deadline)
	case b.marks.has(bodyLeave):
		c.setReadDeadline(longAgo())
	case !b.x.resp.marks.has(ownReadDeadline):
		c.setReadDeadline(deadline)
	}
}

// longAgo is a deadline that makes a Read return.
func longAgo() time.Time { return time.Unix(1, 0) }

// dismiss is called when the handler has returned. A Read in which another of its
// goroutines waits for the client would hold the response up until that sends more.
func (b *body) dismiss() {
	if b.mode == http1.NoBody {
		return
	}
	b.marks.set(bodyClosed)
	b.takeInput()
	b.reading.Unlock()
}

// takeInput locks reading. A goroutine that waits for the client meanwhile gives up.
func (b *body) takeInput() {
	b.marks.set(bodyLeave)
	if b.reading.TryLock() {
		return
	}
	c := b.x.conn()
	b.x.ctx.mu.Lock() // see bound
	_ = c.nc.SetReadDeadline(longAgo())
	b.x.ctx.mu.Unlock()
	b.reading.Lock()
	b.evicted = true
}

// sendContinue sends the interim response that the client waits for before it
// sends its body, unless something else was answered already.
func (b *body) sendContinue() {
	if b.marks.has(bodyClosed | bodyContinue) {
		return
	}
	w := &b.x.resp
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.usable() == nil && b.dropContinue() {
		_ = w.conn.send([]byte(continueLine)) // the response will meet the same error
	}
}

// dropContinue is called when a final response begins. It reports whether the
// client was still waiting: whether it will send the body is then unknown. The caller holds the response's mutex.
func (b *body) dropContinue() bool {
	waiting := b.expects && !b.marks.has(bodyContinue)
	if waiting {
		b.marks.set(bodyContinue)
	}
	return waiting
}

// drain reads what the handler left unread, so that the connection can be used
// again and a client that sends all before it reads is not stuck. It reports
// whether it reached the end.
func (b *body) drain() bool {
	b.reading.Lock()
	defer b.reading.Unlock()
	if b.left >= maxDrain && b.mode != http1.UntilClose {
		return false
	}
	if b.err == nil {
		b.draining, b.bounded = true, false
		_, _ = io.CopyN(io.Discard, rest{b}, maxDrain) // b.err says how it ended
	}
	if b.mode == http1.UntilClose {
		return b.drainRecords()
	}
	return b.complete()
}

// rest is what drain reads. io.Discard has buffers for it.
type rest struct{ *body }

func (r rest) Read(p []byte) (int, error) { return r.readLocked(p) }

// hasArrived reports whether reading the body will not have to wait.
func (b *body) hasArrived() bool {
	switch b.mode {
	case http1.NoBody:
		return true
	case http1.ByLength:
		return !b.expects && b.left <= int64(b.x.conn().end-b.x.conn().next)
	case http1.UntilClose:
		return b.recordsArrived()
	}
	return false
}

// complete reports whether the body has been read to its end: that of one by FastCGI may be an abortion. The caller
// holds reading.
func (b *body) complete() bool { return errors.Is(b.err, io.EOF) || errors.Is(b.err, ErrAborted) }

// watch starts looking out for the client's departure, now or when the body has
// been read.
func (b *body) watch() {
	b.mu.Lock()
	first := !b.over && !b.wantWatch
	if first {
		b.wantWatch = true
		if b.done {
			b.x.ctx.link.beginWatch(b.x)
		}
	}
	b.mu.Unlock()
	if first && b.mode == http1.UntilClose && b.reading.TryLock() { // else who reads will see to it
		b.unlock()
	}
}

// unlock unlocks reading. If a watch is wanted and nothing is missing but FastCGI's record for the end, that is
// read, too.
func (b *body) unlock() {
	if b.mode != http1.UntilClose {
		b.reading.Unlock()
		return
	}
	missing := b.onlyEndMissing()
	b.reading.Unlock()
	b.mu.Lock()
	missing = missing && b.wantWatch && !b.ending && !b.over
	b.ending = b.ending || missing
	b.mu.Unlock()
	if missing {
		go b.awaitEnd()
	}
}

// suspend ends the watch while the connection is taken over.
func (b *body) suspend(c *conn) {
	b.mu.Lock()
	b.over = true
	watched := b.wantWatch
	b.mu.Unlock()
	if watched {
		c.link.stopWatch()
	}
}

// resume undoes takeInput and suspend when taking the connection over has failed. A Read that had to give up has
// returned its error, but the next one may go on.
func (b *body) resume(c *conn) {
	b.marks.drop(bodyLeave)
	if b.evicted {
		b.evicted, b.bounded = false, false
		c.readDeadline = unknownDeadline()
	}
	if isTimeout(b.err) {
		b.err = nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over = false; b.done && b.wantWatch {
		b.x.ctx.link.beginWatch(b.x)
	}
}

// end is called when the handler has returned. From then on Read fails and the
// connection is its goroutine's alone.
func (b *body) end(c *conn) {
	b.suspend(c)
	if b.evicted {
		c.readDeadline = unknownDeadline()
	}
}

// remains reports whether some of the body was not read.
func (b *body) remains() bool {
	if b.mode == http1.NoBody {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.done
}
