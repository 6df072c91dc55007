package fcgiclient

import (
	"fmt"
	"io"

	"github.com/tarehq/tare/internal/roundtrip"
	wire "github.com/tarehq/tare/internal/wire/fcgi"
)

// advance looks at records until there is content or all that has arrived was looked at; then
// it waits for more, if it is to wait. It returns errEnd at the request's end.
func (a *answer) advance(wait bool) error {
	for {
		p, n, err := a.records.Next(a.in.b[a.from:a.to])
		a.from += n
		switch {
		case err != nil:
			return &MalformedError{fmt.Errorf("%w; does %s speak FastCGI?", err, a.c.where.addr)}
		case p.Type == 0 && !wait:
			return nil
		case p.Type == 0:
			err = a.receive()
		default:
			err = a.take(p)
		}
		if err != nil || len(a.content) > 0 {
			return err
		}
	}
}

// endsHere reports whether nothing but the request's end, as it should be, follows what has been looked at, and has arrived.
func (a *answer) endsHere() bool {
	ahead := a.records // a copy
	for b := a.in.b[a.from:a.to]; ; {
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

// take takes a record in, or a piece of one.
func (a *answer) take(p wire.Piece) error {
	a.current = p.Type
	switch {
	case p.ID != requestID:
	case p.Type == wire.EndRequest:
		return a.requestEnd(p)
	case p.Type == wire.Stderr:
		if !p.Ends() {
			a.c.stderr(p.Content)
		}
		return nil
	case p.Type == wire.Stdout && !a.closed:
		a.closed = p.Ends()
		a.content = p.Content
		if a.headed {
			a.count()
		}
		if a.excess > maxUnwanted {
			return errEnd // and the connection is not clean
		}
		return nil
	}
	return &MalformedError{fmt.Errorf("fcgi: the application sent a record of type %d for request %d, which is out of place", p.Type, p.ID)}
}

// count takes content for a part of the body, and cuts off what is too much.
func (a *answer) count() {
	most := int64(len(a.content))
	switch {
	case a.none:
		most = 0
	case a.left >= 0:
		most = min(most, a.left)
		a.left -= most
	}
	a.excess += len(a.content) - int(most)
	a.content = a.content[:most]
}

// requestEnd returns errEnd if the response is complete.
func (a *answer) requestEnd(p wire.Piece) error {
	end, err := wire.ParseEnd(p.Content)
	switch {
	case err != nil:
		return err
	case end.Status != wire.Complete:
		return refusal(end.Status)
	case !a.headed && len(a.in.head) == 0 && end.App != 0:
		return &ExitError{end.App}
	case !a.headed:
		return &MalformedError{fmt.Errorf("fcgi: the application ended the request before the response's head did: %w", io.ErrUnexpectedEOF)}
	case a.left > 0:
		return io.ErrUnexpectedEOF
	}
	a.clean = a.to-a.from == int(p.Padding)
	return errEnd
}

func refusal(s wire.Status) error {
	switch s {
	case wire.Overloaded:
		return ErrOverloaded
	case wire.CantMultiplex:
		return ErrCannotMultiplex
	case wire.UnknownRole:
		return ErrUnknownRole
	}
	return &MalformedError{fmt.Errorf("fcgi: the application ended the request with the unknown status %d", s)}
}

// receive waits for input.
func (a *answer) receive() error {
	a.to = copy(a.in.b[:], a.in.b[a.from:a.to])
	a.from = 0
	n, err := a.read(a.in.b[a.to:])
	a.to += n
	return err
}

// isDirect reports whether the next content is better received where the reader wants it, who
// has room for n bytes.
func (a *answer) isDirect(n int) bool {
	return n >= inputSize && a.from == a.to && a.records.Left() >= inputSize && a.current == wire.Stdout && !a.none && a.left != 0
}

// receiveInto is receive for content that needs no buffer of ours.
func (a *answer) receiveInto(p []byte) int {
	most := int64(min(len(p), a.records.Left()))
	if a.left >= 0 {
		most = min(most, a.left)
	}
	n, err := a.read(p[:most])
	if err != nil {
		_ = a.stop(err)
	}
	a.records.Consumed(n)
	if a.left >= 0 {
		a.left -= int64(n)
	}
	return n
}

// read reads from the connection: bytes or an error, not both.
func (a *answer) read(p []byte) (n int, err error) {
	for range roundtrip.MaxEmptyReads {
		if n, err = a.c.nc.Read(p); n > 0 {
			a.began = true
			return n, nil
		}
		if err != nil {
			return 0, a.c.explain(err)
		}
	}
	return 0, a.c.explain(io.ErrNoProgress)
}
