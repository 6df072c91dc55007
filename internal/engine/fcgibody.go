package engine

import (
	"bytes"
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/tarehq/tare/internal/wire/fcgi"
	"github.com/tarehq/tare/internal/wire/http1"
)

// What Read of a request's body returns when the web server gave up on it.
var (
	ErrAborted    = errors.New("fcgi: request aborted by web server")
	ErrConnClosed = errors.New("fcgi: connection to web server closed")
	errOverlong   = errors.New("fcgi: body longer than CONTENT_LENGTH")
	errBegun      = errors.New("fcgi: BEGIN_REQUEST for a request that has begun")
)

// records is what of an exchange belongs to FastCGI.
type records struct {
	raw      string   // the list of parameters
	separate bool     // it is long: who keeps a parameter shall not keep all of it
	own      bool     // the record that is being read is the body's
	replies  *replies // nil until there is one

	// What a watch needs, which may not look into the conn.
	id     uint16
	reader fcgi.Reader // of what follows the body
	rest   []byte      // of that, what was looked at and is no whole record
}

func (b *body) initRecords(x *exchange, coded *coded, empty bool) {
	b.x, b.coded, b.mode, b.left = x, coded, http1.UntilClose, x.request.ContentLength
	switch {
	case empty && b.left <= 0:
		b.mode, b.err, b.done = http1.NoBody, io.EOF, true
	case empty:
		b.err = io.ErrUnexpectedEOF
	}
}

// readRecords reads the body's bytes out of STDIN.
func (b *body) readRecords(p []byte) (int, error) {
	c := b.x.conn()
	reader := &c.params.Records
	for {
		if c.next == c.end && reader.Left() > 0 && b.coded.own { // past the input buffer: one copy less
			if err := b.flushReplies(); err != nil {
				return 0, err
			}
			b.bound()
			n, err := c.nc.Read(p[:min(len(p), reader.Left())])
			reader.Took(n)
			return b.count(n, b.lostRecords(err))
		}
		before := *reader
		piece, n, err := reader.Next(c.in[c.next:c.end])
		if b.draining && piece.Type == fcgi.BeginRequest { // section 3.3: END_REQUEST was sent, which frees all ids
			*reader = before
			return 0, io.EOF
		}
		c.next += n
		switch {
		case err != nil:
			return 0, err
		case piece.Type == 0:
			if err := b.flushReplies(); err != nil {
				return 0, err
			}
			if err := b.lostRecords(b.fill()); err != nil {
				return 0, err
			}
		case piece.Type != fcgi.Stdin || piece.ID != c.params.ID:
			if err := b.aside(piece); err != nil {
				return 0, err
			}
		case piece.Ends():
			return b.streamEnd()
		default:
			b.coded.own = true
			n := copy(p, piece.Content)
			rest := len(piece.Content) - n
			reader.Took(-rest)
			c.next -= rest
			return b.count(n, nil)
		}
	}
}

// count takes n bytes of the body off what CONTENT_LENGTH leaves.
func (b *body) count(n int, err error) (int, error) {
	if b.x.request.ContentLength < 0 {
		return n, err
	}
	if b.left -= int64(n); b.left < 0 {
		return n + int(b.left), errOverlong
	}
	return n, err
}

// streamEnd is the end of STDIN: of the whole body, if that had a length.
func (b *body) streamEnd() (int, error) {
	if b.left > 0 {
		return 0, io.ErrUnexpectedEOF
	}
	return 0, io.EOF
}

// onlyEndMissing reports whether all of a body was read but the record that ends it. Who knows
// the length may never ask for that.
func (b *body) onlyEndMissing() bool {
	return b.mode == http1.UntilClose && b.err == nil && b.left == 0
}

// awaitEnd reads that record for the sake of what arrives behind it, unless somebody else is
// about to.
func (b *body) awaitEnd() {
	if !b.reading.TryLock() {
		return
	}
	defer b.reading.Unlock()
	if b.marks.has(bodyLeave) {
		return
	}
	if _, err := b.readLocked(make([]byte, 1)); isTimeout(err) && b.marks.has(bodyLeave) {
		b.err = nil // it was told to leave, and drain will look again
	}
}

// lostRecords is lost in FastCGI's words.
func (b *body) lostRecords(err error) error {
	if err = b.lost(err); errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrConnClosed
	}
	return err
}

// aside deals with a record in the middle of the body that is not the body's.
func (b *body) aside(p fcgi.Piece) error {
	c := b.x.conn()
	b.coded.own = false
	event := fcgi.More
	switch {
	case p.Type == fcgi.AbortRequest && p.ID == c.params.ID:
		b.x.abort()
		return ErrAborted
	case p.Type == fcgi.GetValues && p.ID == 0:
		event = fcgi.Asked
	case fcgi.IsUnknown(p) && c.params.Records.Left() > 0: // one reply for each record
	case fcgi.IsUnknown(p):
		event = fcgi.Unknown
	case p.Type == fcgi.BeginRequest && p.ID == c.params.ID:
		return errBegun
	case p.Type == fcgi.BeginRequest:
		event = fcgi.Second
	}
	if event == fcgi.More {
		return nil
	}
	return b.reply(event, p)
}

// abort ends the request's context because the web server aborted the request.
func (x *exchange) abort() {
	x.body.marks.set(bodyAborted)
	x.ctx.depart()
}

// drainRecords is drain for STDIN. END_REQUEST was sent: what is left of STDIN when drain ends is
// ignored, as other records of requests that are not active.
func (b *body) drainRecords() bool {
	_ = b.flushReplies() // the next write meets the same error
	return b.err == nil || b.complete()
}

// recordsArrived reports whether the rest of the body is in the input.
func (b *body) recordsArrived() bool {
	c := b.x.conn()
	reader, in := c.params.Records, c.in[c.next:c.end]
	for {
		p, n, err := reader.Next(in)
		switch in = in[n:]; {
		case err != nil:
			return true // reading it will say so
		case p.Type == 0:
			return false
		case p.Type == fcgi.Stdin && p.ID == c.params.ID && p.Ends():
			return true
		}
	}
}

// beginWatch notes where the body has ended, and reports whether the request's abortion is in
// what has arrived behind it.
func (r *records) beginWatch(c *conn) (aborted bool) {
	r.id, r.reader, r.rest = c.params.ID, c.params.Records, nil
	return r.follow(c.in[c.next:c.end])
}

// follow reports whether the request's abortion is in what has arrived since.
func (r *records) follow(b []byte) (aborted bool) {
	if len(r.rest) > 0 {
		b = slices.Concat(r.rest, b)
	}
	for {
		p, n, err := r.reader.Next(b)
		b = b[n:]
		switch {
		case err != nil:
			r.rest = bytes.Clone(b[:min(len(b), fcgi.HeaderSize)]) // and no more: it will not get better
			return false
		case p.Type == 0:
			r.rest = bytes.Clone(b)
			return false
		case p.Type == fcgi.AbortRequest && p.ID == r.id:
			return true
		}
	}
}

// foresees is follow for what will be looked at again.
func (r *records) foresees(b []byte) (aborted bool) {
	ahead := *r
	return ahead.follow(b)
}

// fastCGI returns what of x belongs to FastCGI, or nil.
func (x *exchange) fastCGI() *records {
	if x.body.coded == nil {
		return nil
	}
	return x.body.coded.records
}

// fastCGIKey is the key of a context's value that is there if the request came by FastCGI.
type fastCGIKey struct{}

// FastCGIParams returns the parameters of a request that came by FastCGI, or nil.
func FastCGIParams(ctx context.Context) iter.Seq2[string, string] {
	x, ok := ctx.Value(fastCGIKey{}).(*records)
	if !ok {
		return nil
	}
	return x.all
}

// all yields the parameters. They are well formed: sortParams has read them.
func (r *records) all(yield func(name, value string) bool) {
	list := []byte(r.raw)
	for at := 0; at < len(list); {
		p, next, err := fcgi.NextPair(list, at)
		if err != nil {
			return
		}
		name, value := p.Name.Of(r.raw), p.Value.Of(r.raw)
		if r.separate {
			name, value = strings.Clone(name), strings.Clone(value)
		}
		if !yield(name, value) {
			return
		}
		at = next
	}
}

// Stderr returns what writes to the web server's log, if the request came by FastCGI, or nil.
func (w *response) Stderr() io.Writer {
	if w.x.fastCGI() == nil {
		return nil
	}
	return stderr{w}
}

// stderr is a response's error stream, which ends with its handler. It shall have no method of
// the response's: io.WriteString and io.Copy would prefer those that write the body.
type stderr struct{ response *response }

// Write implements io.Writer.
func (s stderr) Write(p []byte) (int, error) {
	w := s.response
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.usable(); err != nil {
		return 0, err
	}
	c := w.conn
	if c.stdout > 0 {
		c.closeRecord()
	}
	c.out = fcgi.AppendStream(c.out, fcgi.Stderr, c.params.ID, p)
	if len(c.out) >= outSize {
		if err := c.flush(); err != nil {
			return 0, err
		}
	}
	return len(p), c.writeErr
}

func (p *plan) fastCGI() bool { _, yes := p.protocol.(overFastCGI); return yes }
