// Package tare serves an http.Handler over HTTP/1.1 for less CPU time than net/http. It takes an
// http.Server's settings and follows net/http's semantics, except for the differences listed
// below. HTTP/2 is served over TLS, and without TLS where Protocols enables it.
//
//	log.Fatal(tare.ListenAndServe(":8080", handler))
//
// A program that has an http.Server wraps it and changes nothing else:
//
//	server := tare.Wrap(&http.Server{Addr: ":8080", Handler: handler})
//	log.Fatal(server.ListenAndServe())
//
// A handler may keep everything that it receives: a Request, header, URL, context or string is
// never reused.
//
// A Transport sends requests. It has http.Transport's fields, and needs no goroutine for a
// connection in use. docs/transport.md lists the differences.
//
// # Differences from net/http
//
// All differences are deliberate. They are those from the newest release of Go 1.27. With other
// releases of Go tare does the same, although their net/http may not.
//
// Some requests that net/http accepts are malformed to tare:
//
//   - Malformed framing gets 400, and the connection is closed: Content-Length together with
//     Transfer-Encoding; two Content-Length fields; a Content-Length that is not a number;
//     Transfer-Encoding in HTTP/1.0; folded lines. So does a bare LF as a line end, unless all
//     lines of the head end so.
//   - In a chunked body, chunk extensions, chunk sizes outside the grammar, more framing than
//     data, and framing fields in the trailer section are errors. The handler's Read fails, and
//     the connection is closed after the response.
//   - A Host field holds a name or an address, and optionally a port, or nothing. net/http also
//     accepts an IPv6 address without brackets or with a zone, and a percent sign that begins no
//     escape. Proxies interpret these in different ways.
//   - A request target with user information is rejected.
//   - Connection: keep-alive keeps an HTTP/1.0 connection only if keep-alive is an element of the
//     list. net/http accepts it anywhere in the value.
//   - The response to a malformed request states the reason in a few words. An unsupported HTTP
//     version gets 505, and a transfer coding other than chunked 501. A request line over its limit
//     gets 414, and any other head over its limit 431. An expectation other than 100-continue gets
//     417.
//   - Server.Refused is called for each rejected request.
//
// As in net/http, a path may hold bytes that RFC 3986 does not allow, such as raw UTF-8 and other
// bytes above 0x7f. Handlers receive them unchanged. Control bytes and spaces are rejected.
//
// Valid requests get the same responses, except that:
//
//   - One empty line before a request is skipped (RFC 9112, 2.2). net/http skips two, and only
//     after a POST.
//   - Fields that the server adds, such as Date, may be in a different order.
//   - The context of a request is canceled when the client closes the connection only if a program
//     uses the context: if it has called Done or Err, or derived a context.
//   - If MaxBytesReader has stopped the handler's Read, the remainder is read, if it is small, and
//     the connection is kept. net/http closes it.
//   - A connection is closed if any element of a handler's Connection field is close (RFC 9112,
//     9.6). net/http closes it only if the whole field is "close".
//   - Trailer fields that a handler sets with TrailerPrefix after the head are also sent if the
//     response is small. net/http drops them.
//   - Hijack sends what the handler has written. net/http drops the part that it has buffered.
//   - Without full duplex, a handler that copies the request's body to the response fails after
//     some kilobytes, when the head of the response is sent. With net/http and io.Copy over TCP it
//     fails after 512 bytes.
//   - A Read of the body that still waits in another goroutine fails when the handler returns.
//     net/http delays the response until the client sends more.
//   - A connection is closed if a handler responded with 101 without hijacking the connection.
//   - A response to a request with an incomplete body has Connection: close.
//   - HTTP/1.0 clients get no interim responses (RFC 9110, 15.2).
//   - A Content-Length that a handler sets is dropped if it is not a number, as if it were not set.
//
// Timeouts, connections and resources differ:
//
//   - A head must arrive within 30 seconds if neither ReadHeaderTimeout nor ReadTimeout is set.
//     net/http has no timeout then.
//   - The server waits at most 30 seconds for the remainder of a body, also in Close of the body.
//   - If a client may still be sending when the last response was sent, the server ends its output
//     and reads until nothing has arrived for half a second, for 5 seconds at most. net/http reads
//     nothing and closes the connection after half a second, or at once in some cases.
//   - A response that the server generates must be received within WriteTimeout, SendTimeout or,
//     without both, the timeout for a head. Otherwise the connection is closed.
//   - On Linux, while connections arrive fast, Serve notices up to 100 ms late that its listener
//     was closed, and not at all that a deadline of the listener has passed. Shutdown and Close
//     take effect at once. The options that package net sets on accepted TCP connections are also
//     set on the listening socket.
//   - On Linux, the connection beneath the tls.Conn of a handler that hijacks a connection of
//     ServeTLS, and ClientHelloInfo.Conn, are not of package net. They have its addresses.
//   - ConnState reports an idle connection as active when the first byte of a request arrives.
//     net/http does not if the head then turns out to be malformed or incomplete.
//   - On Linux, if 1,024 clients of ServeTLS do not continue their handshakes, the oldest of these
//     handshakes ends.
//   - Until Serve returns, a Server keeps goroutines: those of its event loops, and up to 64 that
//     wait for further connections.
//   - A server that rests after hundreds of TLS handshakes runs the garbage collector once, and
//     returns free memory to the system.
//
// Over HTTP/2 there are more differences:
//
//   - Over HTTP/2, a ResponseWriter is no http.Pusher: browsers do not support server push any
//     more.
//   - Server.ExtendedConnect offers extended CONNECT (RFC 8441), as GODEBUG=http2xconnect=1 does
//     for both. A request with :protocol is malformed unless it is a CONNECT with :scheme and
//     :path. net/http accepts others.
//   - A request with a malformed head gets 400. If it is complete, its stream is then reset (RFC
//     9113, 8.1.1). net/http resets most such streams without a response, and its client then sends
//     the request again.
//   - A head is malformed, unlike with net/http, if :method is no token, if :path is neither "*"
//     nor begins with a slash, or if :authority or Host is no host. It also is if Host differs from
//     :authority, or if Content-Length is not a number. Request.Header contains no Host.
//   - Space around field values is removed, as over HTTP/1. RFC 9113, 8.2.1, forbids it, but
//     net/http's client sends it.
//   - A request without a body gets no 100 Continue (RFC 9110, 10.1.1).
//   - A response with fewer bytes than its Content-Length states ends with an error, and a Write of
//     more bytes fails, as over HTTP/1. net/http ends such a response as if it were complete, and
//     may send more bytes.
//   - As over HTTP/1, a 304 has neither Content-Type nor Content-Length, and a 204 has no
//     Content-Length. Keep-Alive, Proxy-Connection and Upgrade are not sent (RFC 9113, 8.2.2).
//   - RST_STREAM follows the response to an incomplete request 0.1 seconds later, once the client
//     has acknowledged a PING. Clients such as curl 7.88 lose the response otherwise.
//   - Trailer fields that concern the framing are ignored, and a trailer section may have 8 KB.
//     net/http resets the stream in the first case, and limits it like a head.
//   - An HTTP/2 connection ends if its client sends many frames without a purpose, such as PINGs or
//     requests that it resets. Handlers that still run after a reset count as open streams. The
//     handler of a request that is reset before it begins is not called.
//   - MaxReadFrameSize is 16 KB if HTTP2Config does not set it. The texts that CountError receives
//     are other ones.
package tare
