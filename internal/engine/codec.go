package engine

import "github.com/tarehq/tare/internal/wire/http1"

// protocol is what HTTP/1.1 and FastCGI do in different ways: how requests lie in the input,
// and responses in the output. Everything else is the same for both: which goroutine serves,
// when, for how long, what handlers see, and what a response says.
type protocol interface {
	// head looks for a complete head in the input. It answers a malformed one itself; the
	// connection is then over and ok is false.
	head(c *conn) (complete, ok bool)
	// begin makes an exchange of the complete head and consumes it. It answers a request
	// that cannot be served itself and returns nil; the connection is then over.
	begin(c *conn) *exchange
	// next makes c ready for the next head.
	next(c *conn)
	// refuse answers a request that no handler will see. why is our own text.
	refuse(c *conn, status int, why string)

	// inform appends an interim response, and reports whether there are any.
	inform(w *response, code int) bool
	// start begins the head of a response; the handler's fields follow.
	start(w *response, code int)
	// carries reports whether a response may have a field that describes a connection or
	// a message as it is sent, and not the answer.
	carries(name string) bool
	// delimit decides how the end of the body is found, and whether the connection is kept
	// as far as that says.
	delimit(w *response)
	// appendConnection appends the field that says whether it is kept.
	appendConnection(out []byte, w *response) []byte
	// emit appends body bytes, or writes large ones from where they are.
	emit(w *response, p []byte) error
	// end appends what ends the body.
	end(w *response)
}

// coded is the state of a body whose bytes do not stand alone in the input: of one by
// chunks, or of any in FastCGI's records.
type coded struct {
	chunks   http1.Chunked
	*records // nil unless it is FastCGI's
}
