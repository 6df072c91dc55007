package fcgi

import "encoding/binary"

// Type is the type of a record.
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

// isMessage reports whether records of the type are only processed whole. Others may be read in
// pieces.
func (t Type) isMessage() bool { return !t.streams() && t <= UnknownType }

func (t Type) streams() bool { return t >= Params && t <= Data }

const (
	// HeaderSize is the length of a record's header.
	HeaderSize = 8
	// MaxContent is the maximum content of a record.
	MaxContent = 1<<16 - 1

	version = 1

	// maxMessage limits a message. The longest useful one requests three values.
	maxMessage = 4 << 10
)

// Header is the header of a record.
type Header struct {
	Type    Type
	ID      uint16 // of the request; 0 for the connection
	Length  uint16 // of the content
	Padding uint8
}

// parseHeader parses a header from b, which has at least HeaderSize bytes.
func parseHeader(b []byte) Header {
	return Header{
		Type: Type(b[1]), ID: binary.BigEndian.Uint16(b[2:]),
		Length: binary.BigEndian.Uint16(b[4:]), Padding: b[6],
	}
}

// Piece is a record without padding. For a stream or an unknown type, it is the part that has
// arrived. Type 0 stands for no record.
type Piece struct {
	Header
	Content []byte // aliases the input; empty at the end of a stream
}

// Ends reports whether the piece ends its stream.
func (p Piece) Ends() bool { return p.Type.streams() && p.Length == 0 }

// Reader finds records in input that may be incomplete. The zero value is ready for use.
type Reader struct {
	record  Header // the record whose content is being read
	left    int    // bytes of content that remain
	padding int    // bytes of padding that follow
}

// Next parses b, which starts with the unconsumed input. It returns the next piece, or none if it
// needs more input, and the number of bytes consumed. The piece's content ends there. Next returns
// part of a stream as soon as any of its content has arrived, and a message once it is complete.
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

// Peek returns the header of the next record without consuming it. It consumes the padding of the
// previous record, of n bytes. The content of that record must have been read to its end.
func (r *Reader) Peek(b []byte) (h Header, n int, ok bool, err error) {
	n = min(r.padding, len(b))
	r.padding -= n
	if b = b[n:]; len(b) > 0 && b[0] != version {
		return Header{}, n, false, fault(n, "unsupported FastCGI version")
	}
	if len(b) < HeaderSize {
		return Header{}, n, false, nil
	}
	if h = parseHeader(b); h.Type == 0 {
		return Header{}, n, false, fault(n, "invalid record type 0")
	}
	return h, n, true, nil
}

// Left returns how much content of the current record remains. The next bytes of the input are this
// content. They may be read past the Reader; see Consumed.
func (r *Reader) Left() int { return r.left }

// Consumed records that n bytes of the content that is Left were read elsewhere. If n is negative,
// the last -n bytes that were returned will be returned again.
func (r *Reader) Consumed(n int) { r.left -= n }

// Role is the role of an application in a request (section 6).
type Role uint16

// Responder is the role of all applications that web servers use.
const Responder Role = 1

// Begin is the content of a BEGIN_REQUEST record (section 5.1).
type Begin struct {
	Role Role
	Keep bool // FCGI_KEEP_CONN: the application must not close the connection
}

const keepConn = 1 // a bit of the flags

// ParseBegin reads the content of a BEGIN_REQUEST record.
func ParseBegin(content []byte) (Begin, error) {
	if len(content) != 8 {
		return Begin{}, fault(0, "BEGIN_REQUEST content is not 8 bytes long")
	}
	return Begin{Role(binary.BigEndian.Uint16(content)), content[2]&keepConn != 0}, nil
}

// Status is the protocol status of END_REQUEST (section 5.5).
type Status uint8

// The statuses of the specification.
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
	App    uint32 // exit status of the application
	Status Status
}

// ParseEnd reads the content of an END_REQUEST record.
func ParseEnd(content []byte) (End, error) {
	if len(content) != 8 {
		return End{}, fault(0, "END_REQUEST content is not 8 bytes long")
	}
	return End{binary.BigEndian.Uint32(content), Status(content[4])}, nil
}

// Error is a fault in the input.
type Error struct {
	Offset   int  // in the input of the failing call
	TooLarge bool // only the size is wrong
	What     string
}

func (e *Error) Error() string { return "fcgi: " + e.What }

func fault(offset int, what string) error { return &Error{Offset: offset, What: what} }

func shiftError(err error, by int) error {
	e := err.(*Error) //nolint:errorlint // never wrapped
	e.Offset += by
	return e
}
