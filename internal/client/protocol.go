package client

// protocol holds what differs between HTTP/1.1 and FastCGI for all exchanges of a Client.
// Everything else is common to both: connections, goroutines, timeouts and retries.
type protocol struct {
	// newCodec returns a codec, which serves one exchange after another.
	newCodec func() codec
	// framePiece adds the framing to a piece of a request's body: n bytes in m, from roomBefore on.
	// end reports whether the body ends with it. framePiece is called concurrently.
	framePiece func(x *exchange, m []byte, n int, end bool) []byte
	// abortMessage abandons a request that was sent; nil if only the end of the connection does.
	abortMessage []byte
}

// codec holds what differs between HTTP/1.1 and FastCGI in an exchange: the forms of the request in
// the output and of the response in the input. It belongs to the scratch of the exchange.
type codec interface {
	// route determines where the request goes: x.key.
	route(x *exchange) error
	// encode writes the request into the scratch, without a body that is streamed.
	encode(x *exchange) error
	// receiveHead waits for the head of the final response. It fills the buffer by x.fill.
	receiveHead(x *exchange) error
	// makeResponse builds x.response from the head. It ends the exchange if the whole response has
	// been received.
	makeResponse(x *slab) error
	// readBody reads from the response's body, and waits for at least one byte. p has room. At
	// the end of the body, readBody returns io.EOF.
	readBody(x *slab, p []byte) (n int, err error)
	// hasInput reports whether readBody returns bytes that have been received.
	hasInput(s *scratch) bool
	// skipBuffered skips the part of the body that has been received. It returns io.EOF if that
	// contains the end of the body.
	skipBuffered(x *slab) error
	// mayDrain reports whether the rest of the body may be read for the sake of the connection.
	mayDrain(x *exchange) bool
	// isClean reports, after the end of the body, whether the connection may be reused.
	isClean(x *exchange) bool
	// reset forgets the exchange, and poisons memory that is reused. The scratch's buffers are not
	// the codec's.
	reset()
}
