// Package tare serves an http.Handler over HTTP/1.1 with less of its own weight
// than net/http, and with net/http's semantics. HTTP/2 is served, too, over TLS and
// where Protocols ask for it without: by net/http itself, with the same settings.
//
//	log.Fatal(tare.ListenAndServe(":8080", handler))
//
// A program that has an http.Server wraps it and changes nothing else:
//
//	server := tare.Wrap(&http.Server{Addr: ":8080", Handler: handler})
//	log.Fatal(server.ListenAndServe())
//
// Whatever a handler is given is its own to keep: no Request, header, URL, context
// or string is ever reused.
//
// A Transport asks servers, with http.Transport's fields and without its goroutines;
// docs/transport.md lists what differs.
//
// # Differences from net/http
//
// Each is deliberate. What is malformed is refused more often:
//
//   - Malformed framing is refused with 400 and the connection closed: a
//     Content-Length together with a Transfer-Encoding, twice, or not of digits
//     only; Transfer-Encoding on HTTP/1.0; bare LF as a line end; folded lines.
//   - In a chunked body, chunk extensions and sizes outside the grammar, more
//     overhead than data, and framing fields in the trailer section fail the
//     handler's Read, and the connection is closed after its answer.
//   - Every HTTP/1.1 request needs one Host that is a name or an address, and
//     perhaps a port. net/http takes an empty one, none with CONNECT, and a percent
//     sign that begins no escape.
//   - A head may have 1000 field lines. net/http counts bytes only.
//   - A request target with user information is refused.
//   - Connection: keep-alive keeps an HTTP/1.0 connection if it is an element of the
//     list; to net/http any word will do.
//   - The answer to a malformed request says in a few words what is wrong with it.
//     Another HTTP version gets 505, an unknown transfer coding before chunked 501, a
//     request line over its limit 414, other heads 431, an expectation other than
//     100-continue 417. A Transfer-Encoding that does not end in chunked gets 400
//     (RFC 9112, 6.3), where net/http has 501.
//   - Refused requests are reported to the Server's Refused.
//
// As in net/http, a path may hold bytes that RFC 3986 does not allow there, such as
// raw UTF-8 and bytes above 0x7f that are not UTF-8: handlers get them as they are.
// Control bytes and spaces are refused.
//
// What is well-formed is answered alike, but for this:
//
//   - A head must arrive within 30 seconds where neither ReadHeaderTimeout nor
//     ReadTimeout is set. net/http waits for ever.
//   - One empty line before a request is skipped (RFC 9112, 2.2). net/http does so
//     only after a POST.
//   - The context of a request learns that the client has gone only once somebody
//     has called its Done or Err, or derived a context from it. Nobody else could
//     tell.
//   - A small rest of a body is read, and the connection kept, also when
//     MaxBytesReader refused it or the client was told to continue.
//   - What a handler left of a body is waited for no longer than 30 seconds.
//   - A Read of the body that a handler left waiting in another goroutine fails when
//     the handler returns. net/http withholds the response until the client has
//     sent more.
//   - A connection on which a handler answered 101, or 2xx to a CONNECT, and which it
//     did not take over, is closed.
//   - A response to a request whose body was cut off says that the connection
//     closes.
//   - A busy server whose heap is small holds up to 16 MB of garbage more before the
//     collector runs, on more than one processor and unless GOGC or GOMEMLIMIT is set.
//   - HTTP/1.0 clients get no interim responses (RFC 9110, 15.2).
//   - A Content-Length set by the handler that is no number is dropped, and the
//     response framed as if it had not been set.
//   - A response that the server makes itself is given up if the client does not take it
//     within WriteTimeout, SendTimeout or, without either, the time for a head.
package tare
