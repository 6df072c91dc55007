package fcgiclient

import (
	"fmt"
	"io"

	"github.com/tarehq/tare/internal/roundtrip"
	wire "github.com/tarehq/tare/internal/wire/fcgi"
)

// advance handles records until there is content, or until all received bytes are handled. Then it
// waits for more if wait is set. It returns errRequestEnded at the end of the request.
func (r *response) advance(wait bool) error {
	for {
		p, n, err := r.records.Next(r.in.b[r.parsed:r.filled])
		r.parsed += n
		switch {
		case err != nil:
			return &MalformedError{fmt.Errorf("%w (is %s a FastCGI application?)", err,
				r.exchange.endpoint.addr)}
		case p.Type == 0 && !wait:
			return nil
		case p.Type == 0:
			err = r.fill()
		default:
			err = r.handleRecord(p)
		}
		if err != nil || len(r.content) > 0 {
			return err
		}
	}
}

// hasBufferedEnd reports whether the regular end of the request has been received, with only empty
// records before it.
func (r *response) hasBufferedEnd() bool {
	ahead := r.records // a copy
	for b := r.in.b[r.parsed:r.filled]; ; {
		p, n, err := ahead.Next(b)
		switch {
		case err != nil, p.ID != requestID:
			return false
		case p.Type == wire.EndRequest:
			end, err := wire.ParseEnd(p.Content)
			return err == nil && end.Status == wire.Complete
		case !p.Ends():
			return false
		}
		b = b[n:]
	}
}

// handleRecord handles a record, or a piece of one.
func (r *response) handleRecord(p wire.Piece) error {
	r.recordType = p.Type
	switch {
	case p.ID != requestID:
	case p.Type == wire.EndRequest:
		return r.handleEndRequest(p)
	case p.Type == wire.Stderr:
		if !p.Ends() {
			r.exchange.stderr(p.Content)
		}
		return nil
	case p.Type == wire.Stdout && !r.stdoutEnded:
		r.stdoutEnded = p.Ends()
		r.content = p.Content
		if r.hasHead {
			r.limitBody()
		}
		if r.excess > maxExcess {
			return errRequestEnded // the connection is not clean
		}
		return nil
	}
	return &MalformedError{fmt.Errorf("fcgi: unexpected record of type %d for request %d", p.Type, p.ID)}
}

// limitBody counts content as a part of the body, and cuts off what exceeds Content-Length.
func (r *response) limitBody() {
	most := int64(len(r.content))
	switch {
	case r.hasNoBody:
		most = 0
	case r.remaining >= 0:
		most = min(most, r.remaining)
		r.remaining -= most
	}
	r.excess += len(r.content) - int(most)
	r.content = r.content[:most]
}

// handleEndRequest returns errRequestEnded if the response is complete.
func (r *response) handleEndRequest(p wire.Piece) error {
	end, err := wire.ParseEnd(p.Content)
	switch {
	case err != nil:
		return err
	case end.Status != wire.Complete:
		return refusalError(end.Status)
	case !r.hasHead && len(r.in.head) == 0 && end.App != 0:
		return &ExitError{end.App}
	case !r.hasHead:
		return &MalformedError{fmt.Errorf(
			"fcgi: the application ended the request without a complete response head: %w", io.ErrUnexpectedEOF)}
	case r.remaining > 0:
		return io.ErrUnexpectedEOF
	}
	r.isCleanEnd = r.filled-r.parsed == int(p.Padding)
	return errRequestEnded
}

func refusalError(s wire.Status) error {
	switch s {
	case wire.Overloaded:
		return ErrOverloaded
	case wire.CantMultiplex:
		return ErrCannotMultiplex
	case wire.UnknownRole:
		return ErrUnknownRole
	}
	return &MalformedError{fmt.Errorf("fcgi: the application ended the request with unknown protocol status %d", s)}
}

// fill waits for more bytes.
func (r *response) fill() error {
	r.filled = copy(r.in.b[:], r.in.b[r.parsed:r.filled])
	r.parsed = 0
	n, err := r.read(r.in.b[r.filled:])
	r.filled += n
	return err
}

// isDirect reports whether the next content can be received into the reader's buffer, which has
// room for n bytes.
func (r *response) isDirect(n int) bool {
	return n >= receiveBufferSize && r.parsed == r.filled && r.records.Left() >= receiveBufferSize &&
		r.recordType == wire.Stdout && !r.hasNoBody && r.remaining != 0
}

// readDirect receives content into the reader's buffer.
func (r *response) readDirect(p []byte) int {
	most := int64(min(len(p), r.records.Left()))
	if r.remaining >= 0 {
		most = min(most, r.remaining)
	}
	n, err := r.read(p[:most])
	if err != nil {
		_ = r.end(err)
	}
	r.records.Consumed(n)
	if r.remaining >= 0 {
		r.remaining -= int64(n)
	}
	return n
}

// read reads from the connection. It returns bytes or an error, not both.
func (r *response) read(p []byte) (n int, err error) {
	for range roundtrip.MaxEmptyReads {
		if n, err = r.exchange.conn.Read(p); n > 0 {
			r.receivedAny = true
			return n, nil
		}
		if err != nil {
			return 0, r.exchange.readError(err)
		}
	}
	return 0, r.exchange.readError(io.ErrNoProgress)
}
