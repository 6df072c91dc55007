package h2

import wire "github.com/tarehq/tare/internal/wire/http2"

// connError returns an error that ends the connection (RFC 9113, 5.4.1).
func connError(code wire.ErrorCode, what string) *wire.Error {
	return &wire.Error{Code: code, What: what}
}

// streamError returns an error that ends a stream (RFC 9113, 5.4.2).
func streamError(id uint32, code wire.ErrorCode, what string) *wire.Error {
	return &wire.Error{Code: code, StreamID: id, What: what}
}
