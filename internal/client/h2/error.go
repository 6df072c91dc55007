package h2

import (
	"errors"
	"fmt"
	"io"
	"reflect"

	wire "github.com/tarehq/tare/internal/wire/http2"
)

// Kind is what ended a stream before its response was complete.
type Kind uint8

// The kinds.
const (
	Closed    Kind = iota + 1 // the connection ended
	Malformed                 // the peer violated the protocol, or exceeded a limit
	Rejected                  // the peer reset the stream
	TimedOut                  // the connection was silent, or accepted nothing, for too long
)

// Error is why a stream ended before its response was complete.
type Error struct {
	Kind          Kind
	IsUnprocessed bool // the peer has not processed the request
	// OfNewConn reports that GOAWAY with an error ended the first stream: another connection hardly
	// helps.
	OfNewConn bool
	// MayExceedLimit reports that a limit of the peer, whose settings were late, may be the reason
	// (RFC 9113, 5.1.2).
	MayExceedLimit bool
	Err            error
}

func (e *Error) Error() string { return e.Err.Error() }

func (e *Error) Unwrap() error { return e.Err }

// goAwayError is a GOAWAY frame.
type goAwayError struct {
	last  uint32
	code  wire.ErrorCode
	cause error // of the connection's end, which followed the frame
}

func (e *goAwayError) Error() string {
	if e.code == wire.NoError {
		return "http2: the server closes the connection (GOAWAY)"
	}
	return "http2: the server closes the connection (GOAWAY): " + e.code.String()
}

func (e *goAwayError) Unwrap() error { return e.cause }

// ResetError is an RST_STREAM frame. Its text is that of net/http's error, which programs parse.
type ResetError struct {
	streamID uint32
	code     wire.ErrorCode
}

func (e ResetError) Error() string {
	return fmt.Sprintf("stream error: stream ID %d; %v; %v", e.streamID, e.code, errFromPeer)
}

// As fills an http2.StreamError of golang.org/x/net, as net/http's error does: the client does not
// import that module.
func (e ResetError) As(target any) bool {
	to, from := reflect.ValueOf(target).Elem(), reflect.ValueOf(struct {
		StreamID, Code uint32
		Cause          error
	}{e.streamID, uint32(e.code), errFromPeer})
	if to.Kind() != reflect.Struct || to.NumField() != from.NumField() {
		return false
	}
	for i := range to.NumField() {
		own, f := from.Type().Field(i), to.Type().Field(i)
		if f.Name != own.Name || !own.Type.ConvertibleTo(f.Type) {
			return false
		}
	}
	for i := range to.NumField() {
		to.Field(i).Set(from.Field(i).Convert(to.Field(i).Type()))
	}
	return true
}

// tooShort is the fault of content that ends too early.
const tooShort = "content shorter than Content-Length"

// cutOffError is the error of content that ends too early. Programs that compare errors take it for
// that of a connection that ends.
type cutOffError struct{ error }

func (cutOffError) Unwrap() error { return io.ErrUnexpectedEOF }

var (
	// ErrStreamClosed is the error of writing to a stream whose response is complete.
	ErrStreamClosed = errors.New("http2: the stream is closed")
	// ErrHeadTooLarge is the error of a request whose head exceeds the peer's limit.
	ErrHeadTooLarge = errors.New("http2: request header list larger than peer's advertised limit")
	// ErrNoExtendedConnect is the error of an extended CONNECT request.
	ErrNoExtendedConnect = errors.New("net/http: extended connect not supported by peer")

	errFromPeer   = errors.New("received from peer")
	errNoProgress = errors.New("http2: the server accepts no bytes")
)
