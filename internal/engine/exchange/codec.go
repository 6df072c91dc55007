package exchange

import (
	"io"
	"net/http"

	"github.com/tarehq/tare/internal/wire/http1"
)

// Codec is what differs between HTTP/1.1 and other protocols that carry its requests: how requests
// lie in the input, and how responses lie in the output. Everything else is common to all:
// goroutines, timeouts, what handlers see, and the meaning of a response.
//
// A codec belongs to one conn and holds the protocol's state: of the head that is being parsed, of
// the body that is being read, and of the output. The goroutine that owns this part of the conn
// calls it.
type Codec interface {
	HeadCodec
	BodyCodec
	ResponseCodec

	// Reset prepares the codec for another connection.
	Reset()
	// Trim drops memory that a large request has grown.
	Trim()
}

// Protocol is a protocol of connections.
type Protocol struct {
	Name     string
	NewCodec func() Codec
	Traits   Traits
	// Describe sets those fields of r that are known of the request that in begins with, and
	// returns its request line. It is nil if rejected requests are not reported.
	Describe func(r *http.Request, in []byte, limits http1.Limits) (line []byte)
}

// Traits are what the responses of a protocol may contain.
type Traits struct {
	HasInterim             bool // interim responses
	HasConnFields          bool // fields that describe the connection, for the client
	HasTransferCodings     bool // Transfer-Encoding
	HasLengthsWithTrailers bool // Content-Length in a response with trailers
	CanHijack              bool // a handler can use the connection for another protocol
}

// HeadCodec parses heads.
type HeadCodec interface {
	// ParseHead looks for a complete head in the input. It responds to a malformed head itself.
	// The connection is then over, and ok is false.
	ParseHead(c *Conn) (complete, ok bool)
	// HasBegun reports whether a request has begun of which no bytes need lie in the input.
	HasBegun() bool
	// Suspend drops what an incomplete head does not need. The codec then waits for the rest of
	// the head, without a conn.
	Suspend()
	// BeginExchange makes an exchange of the complete head and consumes the head. If the
	// request cannot be served, it responds itself and returns nil. The connection is then
	// over.
	BeginExchange(c *Conn) *Exchange
	// NextRequest prepares the codec for the next head.
	NextRequest()
	// Refuse appends the response to a request that no handler sees, with text as its body.
	Refuse(c *Conn, status int, text string)
}

// BodyCodec decodes bodies, except those whose mode is ByLength. Its callers hold the body's
// reading mutex.
type BodyCodec interface {
	// ReadBody is Read of such a body.
	ReadBody(b *Body, p []byte) (int, error)
	// HasArrived reports whether the rest of the body has arrived, or a fault of it. If whole is
	// not set, any part of it suffices.
	HasArrived(b *Body, whole bool) bool
}

// ResponseCodec writes responses.
type ResponseCodec interface {
	// Continue returns a complete "100 Continue" response.
	Continue() []byte
	// StartHead appends the start of a head, which may be that of an interim response. Fields
	// follow.
	StartHead(w *Response, code int)
	// AppendField appends a field of a head. name is a token in any case.
	AppendField(out []byte, name, value string) []byte
	// AppendRawField appends a field whose bytes are valid and have no space around the value.
	AppendRawField(out, name, value []byte) []byte
	// AppendLength appends the Content-Length field.
	AppendLength(out []byte, n int64) []byte
	// AppendDate appends the Date field.
	AppendDate(out []byte, date string) []byte
	// EndHead completes the head, which the output ends in.
	EndHead(c *Conn)
	// Delimit decides how the end of the body is marked, and whether that allows the connection
	// to be kept.
	Delimit(w *Response)
	// AppendFraming appends the field that marks the body as chunked, if it is.
	AppendFraming(out []byte, w *Response) []byte
	// AppendConnection appends the Connection field, if the response needs one.
	AppendConnection(out []byte, w *Response) []byte
	// EmitBody appends body bytes to the output. It writes large ones directly from p.
	EmitBody(w *Response, p []byte) error
	// EndBody appends what ends the body.
	EndBody(w *Response)
	// CompleteOut completes what the output ends in, before it is written.
	CompleteOut(c *Conn)
	// DiscardOut is called when the end of the output that CompleteOut would complete was
	// discarded.
	DiscardOut()
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
	// FindAbort reports whether in, which continues the input, contains an abort.
	FindAbort(in []byte) bool
	// PeekAbort is FindAbort for input that will be searched again.
	PeekAbort(in []byte) bool
}
