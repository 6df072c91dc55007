// Package client sends HTTP/1.1 requests and receives the responses: what stands behind
// tare.Transport.
//
// # An exchange
//
// A request and its response are an exchange. The goroutine that calls RoundTrip writes the
// request and then reads the response; there is no goroutine for a connection, no channel, and
// no timer unless a limit of time asks for one. A body that is not at hand, or that is long, is
// sent by a second goroutine, so that the server may answer before it has ended.
//
// An exchange ends once: when the response has been read to its end, when its context ends, or
// when its user has had enough. Whoever ends it gives the connection back to the pool, or closes
// it. See exchange.end.
//
// # Memory
//
// What a caller is given is never used again: one slab holds the Response, its values and its
// body, and one string all that was in the head, and a small body. Buffers are reused, and
// nobody can see one: tests are run with -tags poison.
//
// # HTTP/2
//
// A connection that has negotiated HTTP/2 is handed to an http.Transport that has the same
// settings.
package client
