package http2

import "strconv"

// ErrorCode is the code of a connection error or a stream error (RFC 9113, 7).
type ErrorCode uint32

// The codes.
const (
	NoError            ErrorCode = 0x0
	ProtocolError      ErrorCode = 0x1
	InternalError      ErrorCode = 0x2
	FlowControlError   ErrorCode = 0x3
	SettingsTimeout    ErrorCode = 0x4
	StreamClosed       ErrorCode = 0x5
	FrameSizeError     ErrorCode = 0x6
	RefusedStream      ErrorCode = 0x7
	Cancel             ErrorCode = 0x8
	CompressionError   ErrorCode = 0x9
	ConnectError       ErrorCode = 0xa
	EnhanceYourCalm    ErrorCode = 0xb
	InadequateSecurity ErrorCode = 0xc
	HTTP11Required     ErrorCode = 0xd
)

// codeNames is never modified.
var codeNames = [...]string{
	NoError: "NO_ERROR", ProtocolError: "PROTOCOL_ERROR", InternalError: "INTERNAL_ERROR",
	FlowControlError: "FLOW_CONTROL_ERROR", SettingsTimeout: "SETTINGS_TIMEOUT", StreamClosed: "STREAM_CLOSED",
	FrameSizeError: "FRAME_SIZE_ERROR", RefusedStream: "REFUSED_STREAM", Cancel: "CANCEL",
	CompressionError: "COMPRESSION_ERROR", ConnectError: "CONNECT_ERROR", EnhanceYourCalm: "ENHANCE_YOUR_CALM",
	InadequateSecurity: "INADEQUATE_SECURITY", HTTP11Required: "HTTP_1_1_REQUIRED",
}

// String returns the code's name in RFC 9113.
func (c ErrorCode) String() string {
	if int64(c) < int64(len(codeNames)) {
		return codeNames[c]
	}
	return "unknown error code " + strconv.FormatUint(uint64(c), 10)
}

// Error is a violation of the protocol by the peer.
type Error struct {
	Code     ErrorCode
	StreamID uint32 // 0 if it ends the connection
	What     string // the fault, lower case, without bytes of the peer
}

func (e *Error) Error() string { return "http2: " + e.Code.String() + ": " + e.What }

// ConnError returns an error that ends the connection (RFC 9113, 5.4.1).
func ConnError(code ErrorCode, what string) *Error { return &Error{Code: code, What: what} }

// StreamError returns an error that ends a stream (RFC 9113, 5.4.2).
func StreamError(id uint32, code ErrorCode, what string) *Error {
	return &Error{Code: code, StreamID: id, What: what}
}
