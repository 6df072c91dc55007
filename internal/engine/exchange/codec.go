package exchange

import (
	"context"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/tarehq/tare/internal/connection"

	"github.com/tarehq/tare/internal/wire/http1"
)

// Protocol is a protocol of connections that carry one exchange after another.
type Protocol struct {
	NewCodec func() Codec
	Traits   Traits
	HoldSize int // how much of a body of unknown length is held back; 0 for 2 KB
	// Describe sets the known fields of r for the request at the start of in, and returns its
	// request line. Describe is nil if rejected requests are not reported.
	Describe func(r *http.Request, in []byte, limits http1.Limits) (line []byte)
}

// Traits are the features that responses of a protocol may have.
type Traits struct {
	HasInterim             bool // interim responses
	HasConnFields          bool // fields about the connection, for the client
	HasTransferCodings     bool // Transfer-Encoding
	HasLengthsWithTrailers bool // Content-Length in a response with trailers
	CanHijack              bool // a handler can use the connection for another protocol
}

// Codec holds what differs between protocols of connections: the forms of requests in the input and
// of responses in the output. Everything else is common to all: goroutines, timeouts, what handlers
// see, and the meaning of a response.
//
// A codec belongs to one conn and holds the protocol's state: of the head that is being parsed, of
// the body that is being read, and of the output. The goroutine that owns this part of the conn
// calls it.
type Codec interface {
	Parser
	Sink
}

// Parser finds requests in the input of a connection.
type Parser interface {
	Source
	// Next consumes the next head, and returns an exchange of it. It returns nil if the head is not
	// complete. If the request cannot be served, it responds itself. The connection is then over,
	// and ok is false.
	Next(c *Conn) (x *Exchange, ok bool)
	// HasBegun reports whether a part of a head has arrived. in is the input that Next has left.
	HasBegun(in []byte) bool
	// Refuse appends the response to a request that no handler sees, with text as its body.
	Refuse(c *Conn, status int, f ServerFields, text string)
	// Reset prepares the codec for another connection.
	Reset()
}

// Source decodes bodies, except those whose mode is ByLength. Its callers hold the body's reading
// mutex.
type Source interface {
	// ReadBody implements Read for such a body.
	ReadBody(b *Body, p []byte) (int, error)
	// HasArrived reports whether the rest of the body has arrived, or a fault of it. If whole is
	// not set, any part of it suffices.
	HasArrived(b *Body, whole bool) bool
}

// Sink frames a response. Except for SendData and Flush, its methods append to the conn's output.
// Its content was decided before, except for what only the protocol knows: see Delimit.
type Sink interface {
	// BeginHead begins a head, which may be that of an interim response. Fields follow.
	BeginHead(w *Response, code int)
	// AppendField appends a field to a head or a trailer section. name is a token in any case.
	AppendField(out []byte, name, value string) []byte
	// AppendRawField appends a field whose bytes are valid and have no space around the value.
	AppendRawField(out, name, value []byte) []byte
	// Delimit decides how the end of the body is marked, and whether that allows the connection
	// to be kept. It appends the fields that say so, and the others that the server adds.
	Delimit(w *Response, f ServerFields)
	// EndHead completes a head.
	EndHead(w *Response)
	// Data appends body bytes.
	Data(w *Response, p []byte)
	// SendData writes the output, and then body bytes directly from p.
	SendData(w *Response, p []byte) error
	// End appends what ends the body.
	End(w *Response)
	// Flush completes the output, and writes it.
	Flush(c *Conn) error
}

// TextHead is the part of a Sink that appends fields in the format of HTTP/1.
type TextHead struct{}

func (TextHead) AppendField(out []byte, name, value string) []byte {
	return http1.AppendField(out, name, value)
}

func (TextHead) AppendRawField(out, name, value []byte) []byte {
	return http1.AppendRawField(out, name, value)
}

func (TextHead) EndHead(w *Response) { w.Conn.Out = http1.AppendHeadEnd(w.Conn.Out) }

// AppendServerFields appends the fields that Delimit and Refuse receive.
func (TextHead) AppendServerFields(c *Conn, f ServerFields) {
	if f.Length >= 0 {
		c.Out = http1.AppendLength(c.Out, f.Length)
	}
	if f.ContentType != "" {
		c.Out = http1.AppendField(c.Out, "Content-Type", f.ContentType)
	}
	if f.SendsDate {
		c.Out = http1.AppendDate(c.Out, c.Config.Server.Date.Text())
	}
}

// ServerFields are fields that a head needs and the handler has not set.
type ServerFields struct {
	Length      int64  // for Content-Length; -1 for none
	ContentType string // empty for none
	SendsDate   bool
}

// Extras is what a protocol has beyond HTTP/1. It belongs to the exchange, not to the codec: other
// goroutines use it, and handlers use it after the exchange has ended.
type Extras interface {
	// Value returns the context's value for a key of the protocol, or nil.
	Value(key any) any
	// ErrorStream returns a writer to the client's error log.
	ErrorStream(w *Response) io.Writer

	// StartWatch begins to search the input for an abort of the request. The body has been read
	// to its end. It reports whether an abort has already arrived.
	StartWatch(c *Conn) (isAborted bool)
	// HasAbort reports whether in, all that has arrived since StartWatch, contains an abort.
	HasAbort(in []byte) bool
}

// Transport carries an exchange: a connection, or a stream of HTTP/2.
type Transport interface {
	connection.Info
	LocalAddr() net.Addr
	// SetReadDeadline sets the deadline for reading the request.
	SetReadDeadline(t time.Time) error
	// SetWriteDeadline sets the deadline of all writes until the next call.
	SetWriteDeadline(t time.Time) error
	// MayBlock is called before a call that may block for a reason other than the connection.
	MayBlock()
	// Context returns the parent of the contexts of the connection's requests. It stays valid
	// after the connection has ended.
	Context() context.Context
	// Logf writes to the server's error log. It works after the connection has ended.
	Logf(format string, args ...any)
}

// Connection is a Transport that carries one exchange after another.
type Connection interface {
	Transport
	io.Reader
	// Send writes p. timeout limits how long the client may accept nothing; 0 is no limit.
	Send(p []byte, timeout time.Duration) error
	// SendPieces is Send for several pieces in order, with one system call where possible.
	SendPieces(pieces [][]byte, timeout time.Duration) error
	// CanSendFrom reports whether SendFrom may be called.
	CanSendFrom() bool
	// SendFrom sends what src returns, like Send. The kernel may copy it. If nothing was sent
	// because it cannot, SendFrom may return errors.ErrUnsupported.
	SendFrom(src *io.LimitedReader, timeout time.Duration) (int64, error)
	// CloseWrite ends the output.
	CloseWrite() error
	// WatchDeparture starts to watch for the client's departure, which cancels x's context. The
	// body has been read, and the caller holds its mu.
	WatchDeparture(x *Exchange)
	// StopWatch stops the watch.
	StopWatch()
	// Hijack hands the connection to a handler, as a net.Conn that the transport no longer
	// uses.
	Hijack() (net.Conn, error)
}

// Stream carries one exchange, and knows its protocol.
type Stream interface {
	Transport
	Source
	Sink
	// TrySend is the function of connection.TrySender.
	TrySend(p []byte) connection.Delivery
	// CloseBody drops what has arrived of the body and what follows, as net/http does: it must not
	// hold up the bodies of other streams. It ends a Read of another goroutine.
	CloseBody()
}

// Sender sends what can be sent without blocking, and returns how much that was. A Connection that
// is a Sender, and does not encrypt, can carry an exchange that has outlasted its handler.
type Sender interface{ TrySend([]byte) int }
