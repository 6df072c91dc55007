package fcgi

import "github.com/tarehq/tare/internal/wire/http1"

// Event is the result of Request.Next.
type Event uint8

const (
	// More input is needed.
	More Event = iota
	// Ready means that the request is complete except for its body.
	Ready
	// Aborted means that the request was aborted before it was Ready. It requires an
	// END_REQUEST. The request's data is dropped.
	Aborted
	// ValuesRequested is a GET_VALUES record, whose content is in Message.
	ValuesRequested
	// Unknown is a record of an unknown type, or of one that records with id 0 must not have. Only
	// the header of Message is valid.
	Unknown
	// Second is a BEGIN_REQUEST while another request is being read.
	Second
	// Misplaced is a BEGIN_REQUEST for a role other than Responder.
	Misplaced
)

// Request is a request except for its body: BEGIN_REQUEST, all of PARAMS, and the other records
// between them. The zero value is ready for Next.
//
//	no request ──BEGIN_REQUEST──▶ begun ──end of PARAMS──▶ listed ──first STDIN──▶ Ready
//	     ▲                          │                         │
//	     └──────ABORT_REQUEST───────┴─────────────────────────┘
type Request struct {
	ID   uint16
	Keep bool // keep the connection after the response, also to a Misplaced request
	Size int  // bytes up to the body's first record or, without a body, to its end

	// Params holds the offsets of the list of parameters. It is one span unless the list comes
	// in several records. A name or a value may be cut between two spans.
	Params []http1.Span
	// Empty reports that STDIN has ended without content.
	Empty bool
	// Records reads STDIN and then the next request. Padding of the last record may still
	// follow.
	Records Reader
	// Message is the record of the last event, unless that was Ready. Its content aliases the
	// input.
	Message Piece

	begun, listed bool
	start         int // offset of the request that has begun
}

// Reset prepares r for another request. It keeps the memory.
func (r *Request) Reset() { *r = Request{Params: r.Params[:0]} }

// Pending reports whether a request has begun, or a record is incomplete.
func (r *Request) Pending() bool { return r.begun || r.Records.left > 0 || r.Records.padding > 0 }

// Drop returns how many of the parsed bytes need not be kept because no request has begun. The next
// input of Next starts after them.
func (r *Request) Drop() int {
	if r.begun {
		return 0
	}
	n := r.Size
	r.Size = 0
	return n
}

// Done prepares r for the next request of the connection. The next input of Next starts after the
// body of the last request, which was read with r.Records.
func (r *Request) Done() { *r = Request{Params: r.Params[:0], Records: r.Records} }

// Next parses b, which contains everything received since the request began. After any event except
// Ready, call it again. limit limits the bytes from BEGIN_REQUEST to the end of PARAMS, including
// all records between them. An error about a record has the offset of the record's first byte.
// After an error, call Reset first.
func (r *Request) Next(b []byte, limit int) (Event, error) {
	for {
		if r.listed && r.Records.left == 0 {
			if event, ok := r.body(b); ok {
				return event, nil
			}
		}
		at, end := r.Size, len(b)
		if r.begun { // bytes after the limit do not count: they may not have arrived yet
			end = max(at, min(end, r.start+limit))
		}
		p, n, err := r.Records.Next(b[at:end])
		r.Size += n
		switch {
		case err != nil:
			return More, shiftError(err, at)
		case p.Type == 0 && r.begun && len(b) >= r.start+limit:
			return More, &Error{r.start + limit, true, "parameters too large"}
		case p.Type == 0:
			return More, nil
		}
		event, err := r.handle(p)
		if event != More || err != nil {
			r.Message = p
			return event, err
		}
	}
}

// body looks for the first record of STDIN.
func (r *Request) body(b []byte) (event Event, ok bool) {
	h, n, ok, err := r.Records.Peek(b[r.Size:])
	r.Size += n
	switch {
	case err != nil:
		return More, false // Next will return it
	case !ok:
		return More, true
	case h.Type != Stdin || h.ID != r.ID:
		return More, false
	}
	if r.Empty = h.Length == 0; r.Empty {
		_, n, _ = r.Records.Next(b[r.Size:]) // only a header
		r.Size += n
	}
	return Ready, true
}

func (r *Request) handle(p Piece) (Event, error) {
	// offset of the record, if this is its first piece
	start := r.Size - len(p.Content) - HeaderSize
	if event, ok := r.Records.Management(p); ok {
		return event, nil
	}
	switch {
	case p.Type == BeginRequest:
		return r.begin(p, start)
	case p.ID != r.ID || !r.begun:
		return More, nil // section 3.3: records of inactive requests are ignored
	case p.Type == AbortRequest:
		r.begun, r.listed, r.Params, r.ID = false, false, r.Params[:0], 0
		return Aborted, nil
	case p.Type == Params && r.listed:
		return More, fault(start, "PARAMS record after the end of PARAMS")
	case p.Type == Params && p.Ends():
		r.listed = true
	case p.Type == Params:
		r.add(http1.SpanOf(r.Size-len(p.Content), r.Size))
	case p.Type == Stdin:
		return More, fault(start, "STDIN before the end of PARAMS")
	}
	return More, nil
}

// Management returns the event of a piece that Next has returned. ok reports whether its record is
// about the connection; such a record in several pieces is More until its end.
func (r *Reader) Management(p Piece) (event Event, ok bool) {
	switch {
	case p.Type == GetValues && p.ID == 0:
		return ValuesRequested, true
	case p.Type <= UnknownType && p.ID != 0:
		return More, false
	case r.left > 0:
		return More, true
	}
	return Unknown, true
}

func (r *Request) begin(p Piece, start int) (Event, error) {
	begin, err := ParseBegin(p.Content)
	switch {
	case err != nil:
		return More, shiftError(err, start)
	case r.begun && p.ID == r.ID:
		return More, fault(start, "repeated BEGIN_REQUEST for an active request")
	case r.begun:
		return Second, nil
	case begin.Role != Responder:
		r.Keep = begin.Keep
		return Misplaced, nil
	}
	r.begun, r.start, r.ID, r.Keep = true, start, p.ID, begin.Keep
	return More, nil
}

func (r *Request) add(s http1.Span) {
	if n := len(r.Params); n > 0 && r.Params[n-1].End == s.Start {
		r.Params[n-1].End = s.End // more of the same record
		return
	}
	r.Params = append(r.Params, s)
}
