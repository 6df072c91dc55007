package fcgi

import "encoding/binary"

// Type is what a record is.
type Type uint8

// The types of section 8.
const (
	BeginRequest    Type = 1
	AbortRequest    Type = 2
	EndRequest      Type = 3
	Params          Type = 4
	Stdin           Type = 5
	Stdout          Type = 6
	Stderr          Type = 7
	Data            Type = 8
	GetValues       Type = 9
	GetValuesResult Type = 10
	UnknownType     Type = 11
)

// isMessage reports whether a record of the type is needed whole. Others may be read in pieces.
func (t Type) isMessage() bool { return !t.streams() && t <= UnknownType }

// IsUnknown reports whether a record has a type that is unknown, or that records about the
// connection do not have. GET_VALUES is no such record.
func IsUnknown(p Piece) bool {
	return p.Type > UnknownType || p.ID == 0 && p.Type != GetValues
}

// streams reports whether records of the type are a stream's.
func (t Type) streams() bool { return t >= Params && t <= Data }

const (
	// HeaderSize is the length of a record's header.
	HeaderSize = 8
	// MaxContent is the most that one record can hold.
	MaxContent = 1<<16 - 1

	version = 1

	// maxMessage bounds a record that is needed whole. The longest that means
	// anything asks for three values.
	maxMessage = 4 << 10
)

// Header is the header of a record.
type Header struct {
	Type    Type
	ID      uint16 // of the request; 0 is the connection
	Length  uint16 // of the content
	Padding uint8
}

// parseHeader reads a header from b, which holds HeaderSize bytes or more.
func parseHeader(b []byte) Header {
	return Header{
		Type: Type(b[1]), ID: binary.BigEndian.Uint16(b[2:]),
		Length: binary.BigEndian.Uint16(b[4:]), Padding: b[6],
	}
}

// Piece is a record without padding. Of a stream, and of an unknown type, it is as much of one
// as there is. Type 0 stands for none.
type Piece struct {
	Header
	Content []byte // aliases the input; empty at a stream's end
}

// Ends reports whether the piece ends its stream.
func (p Piece) Ends() bool { return p.Type.streams() && p.Length == 0 }

// Reader finds records in input that may still be arriving. The zero value is ready.
type Reader struct {
	record  Header // whose content is being read
	left    int    // of it
	padding int    // to pass over then
}

// Next looks at b, which begins with what was not consumed before. It returns the next
// piece, or none if it takes more input, and how much was consumed with it: the piece's
// content ends there. A piece of a stream comes as soon as any of its content has, a
// message when it is complete.
func (r *Reader) Next(b []byte) (p Piece, n int, err error) {
	if r.left == 0 {
		h, n, ok, err := r.Peek(b)
		if err != nil || !ok {
			return Piece{}, n, err
		}
		if h.Type.isMessage() {
			return r.message(h, b, n)
		}
		n += HeaderSize
		r.record, r.left, r.padding = h, int(h.Length), int(h.Padding)
		if r.left == 0 {
			return Piece{Header: h}, n, nil
		}
		p, more, err := r.content(b[n:])
		return p, n + more, err
	}
	return r.content(b)
}

// content returns what there is of a record that is read in pieces.
func (r *Reader) content(b []byte) (Piece, int, error) {
	n := min(r.left, len(b))
	if n == 0 {
		return Piece{}, 0, nil
	}
	r.left -= n
	return Piece{r.record, b[:n]}, n, nil
}

func (r *Reader) message(h Header, b []byte, n int) (Piece, int, error) {
	if h.Length > maxMessage {
		return Piece{}, n, fault(n, "message too long")
	}
	end := n + HeaderSize + int(h.Length)
	if len(b) < end {
		return Piece{}, n, nil
	}
	r.padding = int(h.Padding)
	return Piece{h, b[n+HeaderSize : end]}, end, nil
}

// Peek returns the header of the next record without consuming it. n is how much padding
// of the one before was consumed. It is for where a record's content was read to its end.
func (r *Reader) Peek(b []byte) (h Header, n int, ok bool, err error) {
	n = min(r.padding, len(b))
	r.padding -= n
	if b = b[n:]; len(b) > 0 && b[0] != version {
		return Header{}, n, false, fault(n, "unknown version of FastCGI")
	}
	if len(b) < HeaderSize {
		return Header{}, n, false, nil
	}
	if h = parseHeader(b); h.Type == 0 {
		return Header{}, n, false, fault(n, "record of type 0")
	}
	return h, n, true, nil
}

// Left returns how much of a record that is read in pieces is still to come: the next so many bytes are
// its content, and may be taken past the Reader with Took.
func (r *Reader) Left() int { return r.left }

// Took tells that n bytes of what is Left were read elsewhere. If n is negative, so many of
// those last returned are to be returned again.
func (r *Reader) Took(n int) { r.left -= n }

// Role is what an application shall do for a request (section 6).
type Role uint16

// The roles there are.
const (
	Responder  Role = 1
	Authorizer Role = 2
	Filter     Role = 3
)

// Begin is the content of a BEGIN_REQUEST record (section 5.1).
type Begin struct {
	Role Role
	Keep bool // the application shall not close the connection after the response
}

const keepConn = 1 // of the flags

// ParseBegin reads the content of a BEGIN_REQUEST record.
func ParseBegin(content []byte) (Begin, error) {
	if len(content) != 8 {
		return Begin{}, fault(0, "BEGIN_REQUEST is not of 8 bytes")
	}
	return Begin{Role(binary.BigEndian.Uint16(content)), content[2]&keepConn != 0}, nil
}

// Status is how an application parted from a request (section 5.5).
type Status uint8

// The statuses there are.
const (
	Complete        Status = 0
	CantMultiplex   Status = 1
	Overloaded      Status = 2
	UnknownRole     Status = 3
	lastKnownStatus        = UnknownRole
)

func (s Status) String() string {
	if s > lastKnownStatus {
		return "unknown status"
	}
	return [...]string{"request complete", "cannot multiplex", "overloaded", "unknown role"}[s]
}

// End is the content of an END_REQUEST record.
type End struct {
	App    uint32 // the exit status of a CGI program
	Status Status
}

// ParseEnd reads the content of an END_REQUEST record.
func ParseEnd(content []byte) (End, error) {
	if len(content) != 8 {
		return End{}, fault(0, "END_REQUEST is not of 8 bytes")
	}
	return End{binary.BigEndian.Uint32(content), Status(content[4])}, nil
}

// Error says what is wrong with the input.
type Error struct {
	Offset   int  // in what the failing call was given
	TooLarge bool // nothing is wrong but the size
	What     string
}

func (e *Error) Error() string { return "fcgi: " + e.What }

func fault(offset int, what string) error { return &Error{Offset: offset, What: what} }

// moved returns an error of this package whose offset counts from so many bytes before.
func moved(err error, by int) error {
	e := err.(*Error) //nolint:errorlint // nobody wrapped it
	e.Offset += by
	return e
}
