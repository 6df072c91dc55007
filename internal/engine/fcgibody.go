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

// Errors of reading a request's body.
var (
	ErrAborted    = errors.New("fcgi: request aborted by web server")
	ErrConnClosed = errors.New("fcgi: connection to web server closed")
	errOverlong   = errors.New("fcgi: body longer than CONTENT_LENGTH")
	errBegun      = errors.New("fcgi: repeated BEGIN_REQUEST for an active request")
)

// fcgiBody is the FastCGI state of an exchange.
type fcgiBody struct {
	params string // the list of parameters
	// the list is long: parameters are cloned, so that a program that keeps one does not keep
	// all
	clonesParams bool
	inBody       bool        // the current record belongs to the body
	replies      *replyQueue // nil until the first reply

	// State of a departure watch, which must not use the conn.
	id       uint16
	reader   fcgi.Reader // reads what follows the body
	unparsed []byte      // an incomplete record from the last search
}

func (b *body) initRecords(x *exchange, coded *bodyDecoder, empty bool) {
	b.x, b.decoder, b.mode, b.remaining = x, coded, http1.UntilClose, x.request.ContentLength
	switch {
	case empty && b.remaining <= 0:
		b.mode, b.err, b.readToEnd = http1.NoBody, io.EOF, true
	case empty:
		b.err = io.ErrUnexpectedEOF
	}
}

// readRecords reads body bytes from STDIN.
func (b *body) readRecords(p []byte) (int, error) {
	c := b.x.conn()
	reader := &c.fcgi.Records
	for {
		// directly into p, which saves a copy
		if c.next == c.end && reader.Left() > 0 && b.decoder.inBody {
			if err := b.flushReplies(); err != nil {
				return 0, err
			}
			b.boundRead()
			n, err := c.nc.Read(p[:min(len(p), reader.Left())])
			reader.Consumed(n)
			return b.countBytes(n, b.recordsFailed(err))
		}
		before := *reader
		piece, n, err := reader.Next(c.in[c.next:c.end])
		// section 3.3: END_REQUEST was sent, which frees all ids
		if b.draining && piece.Type == fcgi.BeginRequest {
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
			if err := b.recordsFailed(b.fill()); err != nil {
				return 0, err
			}
		case piece.Type != fcgi.Stdin || piece.ID != c.fcgi.ID:
			if err := b.handleRecord(piece); err != nil {
				return 0, err
			}
		case piece.Ends():
			return b.endOfStdin()
		default:
			b.decoder.inBody = true
			n := copy(p, piece.Content)
			rest := len(piece.Content) - n
			reader.Consumed(-rest)
			c.next -= rest
			return b.countBytes(n, nil)
		}
	}
}

// countBytes subtracts n from the remaining CONTENT_LENGTH.
func (b *body) countBytes(n int, err error) (int, error) {
	if b.x.request.ContentLength < 0 {
		return n, err
	}
	if b.remaining -= int64(n); b.remaining < 0 {
		return n + int(b.remaining), errOverlong
	}
	return n, err
}

// endOfStdin returns the result of reading the end of STDIN: io.EOF, or an error if the body is
// shorter than CONTENT_LENGTH.
func (b *body) endOfStdin() (int, error) {
	if b.remaining > 0 {
		return 0, io.ErrUnexpectedEOF
	}
	return 0, io.EOF
}

// lacksOnlyEnd reports whether all of a body was read except the record that ends it. A handler
// that knows the length may never read that record.
func (b *body) lacksOnlyEnd() bool {
	return b.mode == http1.UntilClose && b.err == nil && b.remaining == 0
}

// readEndRecord reads that record, because the departure watch needs what follows. It returns if
// another goroutine is reading.
func (b *body) readEndRecord() {
	if !b.reading.TryLock() {
		return
	}
	defer b.reading.Unlock()
	if b.flags.has(bodyInterrupted) {
		return
	}
	if _, err := b.readLocked(make([]byte, 1)); isTimeout(err) && b.flags.has(bodyInterrupted) {
		b.err = nil // claimInput has interrupted it, and drain will read again
	}
}

// recordsFailed is readFailed with FastCGI's errors.
func (b *body) recordsFailed(err error) error {
	if err = b.readFailed(err); errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrConnClosed
	}
	return err
}

// handleRecord handles a record in the middle of the body that does not belong to it.
func (b *body) handleRecord(p fcgi.Piece) error {
	c := b.x.conn()
	b.decoder.inBody = false
	event := fcgi.More
	switch {
	case p.Type == fcgi.AbortRequest && p.ID == c.fcgi.ID:
		b.x.abortRequest()
		return ErrAborted
	case p.Type == fcgi.GetValues && p.ID == 0:
		event = fcgi.ValuesRequested
	case fcgi.IsUnknown(p) && c.fcgi.Records.Left() > 0: // one reply for each record
	case fcgi.IsUnknown(p):
		event = fcgi.Unknown
	case p.Type == fcgi.BeginRequest && p.ID == c.fcgi.ID:
		return errBegun
	case p.Type == fcgi.BeginRequest:
		event = fcgi.Second
	}
	if event == fcgi.More {
		return nil
	}
	return b.queueReply(event, p)
}

// abortRequest ends the request's context because the web server has aborted the request.
func (x *exchange) abortRequest() {
	x.body.flags.set(bodyAborted)
	x.ctx.clientLeft()
}

// drainRecords is drain for STDIN. END_REQUEST was sent, so that what is left of STDIN after drain
// is ignored, like other records of inactive requests.
func (b *body) drainRecords() bool {
	_ = b.flushReplies() // the next write fails with the same error
	return b.err == nil || b.atEnd()
}

// recordsArrived reports whether the rest of the body is in the input buffer.
func (b *body) recordsArrived() bool {
	c := b.x.conn()
	reader, in := c.fcgi.Records, c.in[c.next:c.end]
	for {
		p, n, err := reader.Next(in)
		switch in = in[n:]; {
		case err != nil:
			return true // reading it will return the error
		case p.Type == 0:
			return false
		case p.Type == fcgi.Stdin && p.ID == c.fcgi.ID && p.Ends():
			return true
		}
	}
}

// startWatch records where the body has ended. It reports whether an ABORT_REQUEST for the request
// has already arrived.
func (r *fcgiBody) startWatch(c *conn) (aborted bool) {
	r.id, r.reader, r.unparsed = c.fcgi.ID, c.fcgi.Records, nil
	return r.findAbort(c.in[c.next:c.end])
}

// findAbort reports whether b, which continues the input, contains the request's ABORT_REQUEST.
func (r *fcgiBody) findAbort(b []byte) (aborted bool) {
	if len(r.unparsed) > 0 {
		b = slices.Concat(r.unparsed, b)
	}
	for {
		p, n, err := r.reader.Next(b)
		b = b[n:]
		switch {
		case err != nil:
			// no more is needed: every later search fails, too
			r.unparsed = bytes.Clone(b[:min(len(b), fcgi.HeaderSize)])
			return false
		case p.Type == 0:
			r.unparsed = bytes.Clone(b)
			return false
		case p.Type == fcgi.AbortRequest && p.ID == r.id:
			return true
		}
	}
}

// peekAbort is findAbort for input that will be searched again.
func (r *fcgiBody) peekAbort(b []byte) (aborted bool) {
	ahead := *r
	return ahead.findAbort(b)
}

// fcgiBody returns the FastCGI state of x, or nil.
func (x *exchange) fcgiBody() *fcgiBody {
	if x.body.decoder == nil {
		return nil
	}
	return x.body.decoder.fcgiBody
}

// fcgiContextKey is the key of a context value that is set if the request came by FastCGI.
type fcgiContextKey struct{}

// FastCGIParams returns the parameters of a request that came by FastCGI, or nil.
func FastCGIParams(ctx context.Context) iter.Seq2[string, string] {
	x, ok := ctx.Value(fcgiContextKey{}).(*fcgiBody)
	if !ok {
		return nil
	}
	return x.allParams
}

// allParams yields the parameters. They are well formed: sortParams has checked them.
func (r *fcgiBody) allParams(yield func(name, value string) bool) {
	list := []byte(r.params)
	for at := 0; at < len(list); {
		p, next, err := fcgi.NextPair(list, at)
		if err != nil {
			return
		}
		name, value := p.Name.Of(r.params), p.Value.Of(r.params)
		if r.clonesParams {
			name, value = strings.Clone(name), strings.Clone(value)
		}
		if !yield(name, value) {
			return
		}
		at = next
	}
}

// Stderr returns a writer to the web server's error log if the request came by FastCGI, or nil.
func (w *response) Stderr() io.Writer {
	if w.x.fcgiBody() == nil {
		return nil
	}
	return stderr{w}
}

// stderr is a response's error stream, which ends with its handler. It must not have the response's
// methods: io.WriteString and io.Copy would prefer those that write the body.
type stderr struct{ response *response }

// Write implements io.Writer.
func (s stderr) Write(p []byte) (int, error) {
	w := s.response
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.checkUsable(); err != nil {
		return 0, err
	}
	c := w.conn
	if c.stdoutStart > 0 {
		c.closeRecord()
	}
	c.out = fcgi.AppendStream(c.out, fcgi.Stderr, c.fcgi.ID, p)
	if len(c.out) >= outSize {
		if err := c.flush(); err != nil {
			return 0, err
		}
	}
	return len(p), c.writeErr
}

func (p *serveConfig) isFastCGI() bool { _, yes := p.codec.(fcgiCodec); return yes }
