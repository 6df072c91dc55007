package engine

import "github.com/tarehq/tare/internal/wire/http1"

// codec is what differs between HTTP/1.1 and FastCGI: how requests lie in the input, and how
// responses lie in the output. Everything else is common to both: goroutines, timeouts, what
// handlers see, and the meaning of a response.
type codec interface {
	// parseHead looks for a complete head in the input. It responds to a malformed head itself.
	// The connection is then over, and ok is false.
	parseHead(c *conn) (complete, ok bool)
	// beginExchange makes an exchange of the complete head and consumes the head. If the
	// request cannot be served, it responds itself and returns nil. The connection is then
	// over.
	beginExchange(c *conn) *exchange
	// nextRequest prepares c for the next head.
	nextRequest(c *conn)
	// refuse appends the response to a request that no handler sees. why is never text of the
	// client's.
	refuse(c *conn, status int, why string)

	// appendInterim appends the start of an interim response. It reports false if the protocol
	// has no interim responses.
	appendInterim(w *response, code int) bool
	// startHead appends the start of a response's head. The handler's fields follow.
	startHead(w *response, code int)
	// sendsField reports whether a response may carry a field that describes the connection or
	// the message framing, not the content.
	sendsField(name string) bool
	// delimit decides how the end of the body is marked, and whether that allows the connection
	// to be kept.
	delimit(w *response)
	// appendConnection appends the Connection field, if the response needs one.
	appendConnection(out []byte, w *response) []byte
	// emitBody appends body bytes to the output. It writes large ones directly from p.
	emitBody(w *response, p []byte) error
	// endBody appends what ends the body.
	endBody(w *response)
}

// bodyDecoder is the decoder state of a body that is framed in the input: by chunks, or by
// FastCGI's records.
type bodyDecoder struct {
	chunks    http1.Chunked
	*fcgiBody // nil for HTTP/1
}
