package engine

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/internal/wire/http1"
)

// body is a request's body. Its mutex guards, for as long as the handler runs,
// everything that reads the connection: handlers may read a body, ask for
// cancellation and take over the connection from different goroutines.
type body struct {
	x  *exchange
	mu sync.Mutex

	left  int64  // of a body by length
	coded *coded // of a body by chunks, and of any in FastCGI's records
	err   error  // sticky; io.EOF once all was read

	continueMu sync.Mutex
	continued  bool // the client has got "100 Continue", or a final response; guarded by continueMu
	expects    bool // the client waits for that before it sends the body

	mode   http1.Mode
	over   bool // the exchange is over, or the connection was taken over
	ending bool // of FastCGI: the end is waited for, or whoever reads will meet it

	bounded   bool // the read deadline of this exchange is set
	draining  bool // the handler will read no more
	wantWatch bool // start a watch once the body has been read

	closed   atomic.Bool // by the handler
	returned atomic.Bool // the handler has; a Read that still waits is to give up
}

const continueLine = "HTTP/1.1 100 Continue\r\n\r\n"

func (b *body) init(x *exchange, f http1.Framing, expects bool) {
	b.x, b.mode, b.left, b.expects = x, f.Mode, f.Length, expects
	if f.Mode == http1.ByChunks {
		b.coded = new(coded)
	}
	if f.Mode == http1.NoBody {
		b.err = io.EOF
	}
}

// Read implements io.Reader. Each call makes at most one call to the network.
func (b *body) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.unlock()
	if b.closed.Load() || b.over {
		return 0, http.ErrBodyReadAfterClose
	}
	return b.readLocked(p)
}

// Close implements io.Closer. What is left of the body is read, or not, when the
// handler returns.
func (b *body) Close() error {
	b.closed.Store(true)
	return nil
}

func (b *body) readLocked(p []byte) (n int, err error) {
	if b.err != nil {
		return 0, b.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	b.sendContinue()
	switch b.mode {
	case http1.ByLength:
		n, err = b.readLength(p)
	case http1.ByChunks:
		n, err = b.readChunks(p)
	default:
		n, err = b.readRecords(p)
	}
	b.err = err
	if b.complete() && b.wantWatch {
		b.x.conn().link.beginWatch(b.x)
	}
	return n, err
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
	b.x.ctx.cancel(context.Canceled)
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
	c, r := b.x.conn(), &b.x.request
	var t http1.Trailer
	for {
		in := c.in[c.next:c.end]
		complete, err := t.Parse(in, http1.Limits{Bytes: maxTrailerBytes, Fields: maxTrailerFields})
		if err != nil {
			return err
		}
		if complete {
			section := string(in[:t.Size])
			c.next += t.Size
			for _, f := range t.Fields {
				if r.Trailer == nil {
					r.Trailer = make(http.Header, len(t.Fields))
				}
				r.Trailer.Add(f.Name.Of(section), f.Value.Of(section))
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
// may block.
func (b *body) bound() {
	if b.bounded || b.x.resp.marks.has(ownDeadlines) && !b.draining {
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
	c.setReadDeadline(deadline)
	if b.returned.Load() && !b.draining {
		_ = c.nc.SetReadDeadline(longAgo())
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
	b.returned.Store(true)
	if !b.mu.TryLock() {
		_ = b.x.conn().nc.SetReadDeadline(longAgo())
		b.mu.Lock()
		b.x.conn().readDeadline = longAgo()
	}
	b.closed.Store(true)
	b.mu.Unlock()
}

// sendContinue sends the interim response that the client waits for before it
// sends its body, unless something else was answered already.
func (b *body) sendContinue() {
	if !b.expects {
		return
	}
	b.continueMu.Lock()
	defer b.continueMu.Unlock()
	if !b.continued {
		b.continued = true
		_, _ = io.WriteString(b.x.conn().nc, continueLine) // the response will meet the same error
	}
}

// dropContinue is called when a final response begins. It reports whether the
// client was still waiting: whether it will send the body is then unknown.
func (b *body) dropContinue() bool {
	if !b.expects {
		return false
	}
	b.continueMu.Lock()
	defer b.continueMu.Unlock()
	waiting := !b.continued
	b.continued = true
	return waiting
}

// drain reads what the handler left unread, so that the connection can be used
// again and a client that sends all before it reads is not stuck. It reports
// whether it reached the end.
func (b *body) drain() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left >= maxDrain {
		return false
	}
	b.draining, b.bounded = true, false
	if b.x.resp.marks.has(ownDeadlines) {
		b.x.conn().readDeadline = unknownDeadline()
	}
	if !b.over {
		_, _ = io.CopyN(io.Discard, rest{b}, maxDrain) // b.err says how it ended
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

// complete reports whether the body has been read to its end.
func (b *body) complete() bool { return errors.Is(b.err, io.EOF) }

// watch starts looking out for the client's departure, now or when the body has
// been read.
func (b *body) watch() {
	b.mu.Lock()
	defer b.unlock()
	switch {
	case b.over || b.wantWatch:
	case b.complete():
		b.wantWatch = true
		b.x.conn().link.beginWatch(b.x)
	default:
		b.wantWatch = true
	}
}

// unlock unlocks the mutex. If a watch is wanted and nothing is missing but the end, that is
// read, too.
func (b *body) unlock() {
	missing := b.wantWatch && !b.ending && b.onlyEndMissing()
	b.ending = b.ending || missing
	b.mu.Unlock()
	if missing {
		go b.awaitEnd()
	}
}

// end is called when the handler has returned. From then on Read fails and the
// connection is its goroutine's alone.
func (b *body) end() {
	b.mu.Lock()
	b.over = true
	b.mu.Unlock()
	if b.wantWatch {
		b.x.conn().link.stopWatch()
	}
}

// remains reports whether some of the body was not read.
func (b *body) remains() bool {
	if b.mode == http1.NoBody {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.complete()
}
