package fastcgi

import (
	"errors"
	"io"
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/wire/fcgi"
)

// Errors of reading a request's body.
var (
	ErrAborted    = errors.New("fcgi: request aborted by web server")
	ErrConnClosed = errors.New("fcgi: connection to web server closed")
	errBegun      = errors.New("fcgi: repeated BEGIN_REQUEST for an active request")
)

// initBody prepares the body of a request. hasLength reports whether CONTENT_LENGTH is set.
func (f *codec) initBody(x *exchange.Exchange, hasLength bool) {
	r := &x.Request
	if r.ContentLength == 0 && (hasLength || f.request.Empty) {
		x.Body.Init(x, exchange.NoBody, 0, false)
		return
	}
	if !hasLength {
		r.ContentLength = -1
	}
	x.Body.Init(x, exchange.ByRecords, r.ContentLength, false)
	if f.request.Empty {
		x.Body.Err = io.ErrUnexpectedEOF
	}
}

// ReadBody reads body bytes from STDIN. It ends at CONTENT_LENGTH (RFC 3875, 4.2). The codec drops
// what remains of STDIN.
func (f *codec) ReadBody(b *exchange.Body, p []byte) (int, error) {
	c := b.Exchange.Conn()
	if b.Remaining >= 0 {
		p = p[:min(int64(len(p)), b.Remaining)]
	}
	reader := &f.request.Records
	for {
		// directly into p, which saves a copy
		if len(c.Input()) == 0 && reader.Left() > 0 && f.inBody {
			n, err := b.ReadDirectly(p[:min(len(p), reader.Left())])
			reader.Consumed(n)
			return f.countBytes(b, n, readFailed(err))
		}
		before := *reader
		piece, n, err := reader.Next(c.Input())
		// section 3.3: END_REQUEST was sent, which frees all ids
		if b.Draining && piece.Type == fcgi.BeginRequest {
			*reader = before
			return 0, io.EOF
		}
		c.Consume(n)
		switch {
		case err != nil:
			return 0, err
		case piece.Type == 0:
			if err := readFailed(b.Fill()); err != nil {
				return 0, err
			}
		case piece.Type != fcgi.Stdin || piece.ID != f.id:
			if err := f.handleRecord(b, piece); err != nil {
				return 0, err
			}
		case piece.Ends():
			if b.Remaining > 0 { // shorter than CONTENT_LENGTH
				return 0, io.ErrUnexpectedEOF
			}
			return 0, io.EOF
		default:
			f.inBody = true
			n := copy(p, piece.Content)
			rest := len(piece.Content) - n
			reader.Consumed(-rest)
			c.Consume(-rest)
			return f.countBytes(b, n, nil)
		}
	}
}

// countBytes subtracts n from the remaining CONTENT_LENGTH.
func (f *codec) countBytes(b *exchange.Body, n int, err error) (int, error) {
	if b.Remaining < 0 {
		return n, err
	}
	if b.Remaining -= int64(n); b.Remaining == 0 {
		f.takeEnd(b)
		return n, io.EOF
	}
	return n, err
}

// takeEnd consumes the end of STDIN behind CONTENT_LENGTH, if it has arrived: the connection need
// not linger for it. Remaining is -1 then, since no more can follow.
func (f *codec) takeEnd(b *exchange.Body) {
	c, reader := b.Exchange.Conn(), f.request.Records
	if p, n, err := reader.Next(c.Input()); err == nil && p.Type == fcgi.Stdin && p.ID == f.id && p.Ends() {
		f.request.Records, b.Remaining = reader, -1
		c.Consume(n)
	}
}

func readFailed(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return ErrConnClosed
	}
	return err
}

// handleRecord handles a record in the middle of the body that does not belong to it. Management
// records, and other requests that begin, get replies.
func (f *codec) handleRecord(b *exchange.Body, p fcgi.Piece) error {
	f.inBody = false
	event, isManagement := f.request.Records.Management(p)
	switch {
	case isManagement:
	case p.Type == fcgi.AbortRequest && p.ID == f.id:
		b.Exchange.Abort()
		return ErrAborted
	case p.Type == fcgi.BeginRequest && p.ID == f.id:
		return errBegun
	case p.Type == fcgi.BeginRequest:
		event = fcgi.Second
	}
	if event == fcgi.More {
		return nil
	}
	return f.reply(b, event, p)
}

// reply sends the reply to a record, between two records of the response. A deadline applies even if
// no setting limits writes: the peer may send such records without end, and read nothing.
func (f *codec) reply(b *exchange.Body, event fcgi.Event, p fcgi.Piece) error {
	w := &b.Exchange.Response
	if !b.Draining { // else the caller holds the mutex
		w.Mu.Lock()
		defer w.Mu.Unlock()
		if err := w.CheckUsable(); err != nil {
			return err
		}
	}
	c := w.Conn
	f.endRecord(c)
	c.Out = appendReply(c.Out, event, p)
	if c.Config.WriteTimeout <= 0 && c.Config.DefaultSendTimeout == 0 && !w.Flags.Has(exchange.HandlerWriteDeadline) {
		c.SetWriteDeadline(time.Now().Add(c.Config.HeadTimeout))
		defer c.SetWriteDeadline(time.Time{})
	}
	return c.Flush()
}

func (f *codec) HasArrived(b *exchange.Body, whole bool) bool {
	c := b.Exchange.Conn()
	reader, in := f.request.Records, c.Input()
	if f.inBody && reader.Left() > 0 && len(in) > 0 && !whole {
		return true
	}
	for {
		p, n, err := reader.Next(in)
		switch in = in[n:]; {
		case err != nil:
			return true // reading it will return the error
		case p.Type == 0:
			return false
		case p.Type == fcgi.Stdin && p.ID == f.id && (p.Ends() || !whole):
			return true
		}
	}
}
