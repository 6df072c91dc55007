package fcgi

import "github.com/tarehq/tare/internal/wire/http1"

// Event is what a Request has come to.
type Event uint8

const (
	// More input is needed.
	More Event = iota
	// Ready is a request that is complete up to its body.
	Ready
	// Aborted is a request that was aborted before it was ready; it deserves an END_REQUEST.
	// Nothing of it counts any more.
	Aborted
	// Asked is a GET_VALUES record, whose content is in Message.
	Asked
	// Unknown is a record of a type that is unknown, or is no type of the connection's. Of
	// Message only the header means anything.
	Unknown
	// Second is a BEGIN_REQUEST while another request is being read.
	Second
	// Misplaced is a BEGIN_REQUEST for another role than Responder's.
	Misplaced
)

// Request is a request up to its body: BEGIN_REQUEST and the whole of PARAMS, and whatever
// else came between them. The zero value is ready for Next.
type Request struct {
	ID   uint16
	Keep bool // the connection is to be kept
	Size int  // bytes up to the body's first record or, if there is no body, behind it

	// Params is where the list of parameters lies: in one piece unless it comes in several
	// records or has not come at a stroke. A name or a value may be cut between two.
	Params []http1.Span
	// Empty is set if STDIN has ended without content.
	Empty bool
	// Records is the state in which STDIN is to be read on, and then the next request: the
	// padding of the last record may still be to come.
	Records Reader
	// Message is the record that the last event was about, if that was not Ready; its content
	// aliases the input.
	Message Piece

	begun, listed bool
	start         int // of a request that has begun
}

// Reset makes r ready for another request, keeping its memory.
func (r *Request) Reset() { *r = Request{Params: r.Params[:0]} }

// Pending reports whether a request has begun, or something else is incomplete.
func (r *Request) Pending() bool { return r.begun || r.Records.left > 0 || r.Records.padding > 0 }

// Drop returns how many of the bytes looked at need not be kept, because no request has
// begun. The next call of Next is given what follows them.
func (r *Request) Drop() int {
	if r.begun {
		return 0
	}
	n := r.Size
	r.Size = 0
	return n
}

// Done makes r ready for the next request of the connection. Next is then given what follows
// the body of the last one, which was read with r.Records.
func (r *Request) Done() { *r = Request{Params: r.Params[:0], Records: r.Records} }

// Next looks at b, which holds everything received since the request began, and reports
// what it has come to. After any event but Ready call it again. limit bounds the bytes from
// BEGIN_REQUEST to the end of PARAMS, whatever records are among them. An error at fault with a
// record has the offset where that begins. After an error only Reset helps.
func (r *Request) Next(b []byte, limit int) (Event, error) {
	for {
		if r.listed && r.Records.left == 0 {
			if event, ok := r.body(b); ok {
				return event, nil
			}
		}
		at, end := r.Size, len(b)
		if r.begun { // what is behind the limit does not count: it may not have come yet
			end = max(at, min(end, r.start+limit))
		}
		p, n, err := r.Records.Next(b[at:end])
		r.Size += n
		switch {
		case err != nil:
			return More, moved(err, at)
		case p.Type == 0 && r.begun && len(b) >= r.start+limit:
			return More, &Error{r.start + limit, true, "parameters too large"}
		case p.Type == 0:
			return More, nil
		}
		event, err := r.take(p)
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
		return More, false // Next will meet it again
	case !ok:
		return More, true
	case h.Type != Stdin || h.ID != r.ID:
		return More, false
	}
	if r.Empty = h.Length == 0; r.Empty {
		_, n, _ = r.Records.Next(b[r.Size:]) // a header alone
		r.Size += n
	}
	return Ready, true
}

// take takes a record in, up to STDIN's first.
func (r *Request) take(p Piece) (Event, error) {
	start := r.Size - len(p.Content) - HeaderSize // of the record, if this is its first piece
	switch {
	case p.Type == GetValues && p.ID == 0:
		return Asked, nil
	case IsUnknown(p) && r.Records.left > 0:
		return More, nil // one event for each record
	case IsUnknown(p):
		return Unknown, nil
	case p.Type == BeginRequest:
		return r.begin(p, start)
	case p.ID != r.ID || !r.begun:
		return More, nil // section 3.3: of requests that are not active nothing counts
	case p.Type == AbortRequest:
		r.begun, r.listed, r.Params = false, false, r.Params[:0]
		return Aborted, nil
	case p.Type == Params && r.listed:
		return More, fault(start, "PARAMS after their end")
	case p.Type == Params && p.Ends():
		r.listed = true
	case p.Type == Params:
		r.add(span(r.Size-len(p.Content), r.Size))
	case p.Type == Stdin:
		return More, fault(start, "STDIN before the end of PARAMS")
	}
	return More, nil
}

func (r *Request) begin(p Piece, start int) (Event, error) {
	begin, err := ParseBegin(p.Content)
	switch {
	case err != nil:
		return More, moved(err, start)
	case r.begun && p.ID == r.ID:
		return More, fault(start, "BEGIN_REQUEST for a request that has begun")
	case r.begun:
		return Second, nil
	case begin.Role != Responder:
		return Misplaced, nil
	}
	r.begun, r.start, r.ID, r.Keep = true, start, p.ID, begin.Keep
	return More, nil
}

// add adds a piece of the list.
func (r *Request) add(s http1.Span) {
	if n := len(r.Params); n > 0 && r.Params[n-1].End == s.Start {
		r.Params[n-1].End = s.End // more of the same record
		return
	}
	r.Params = append(r.Params, s)
}
