// Package fcgi speaks FastCGI 1.0: it serves an http.Handler behind a web server, and asks
// FastCGI applications as an http.RoundTripper.
//
// Serve and ProcessEnv are those of net/http/fcgi: change the import path and nothing else.
// What lies below is the engine of package tare, so that a request costs what it costs over
// HTTP: on Linux one read takes it in, the handler runs on the poll loop, and one write sends
// the response. Server has timeouts, limits and Shutdown besides.
//
// # What differs from net/http/fcgi
//
//   - Requests look like those of an HTTP server: RequestURI is set, URL is the path and the
//     query, Close is false, and a name that is given several times has all its values.
//     ContentLength is -1 if there is a body and no CONTENT_LENGTH. A body that is shorter or
//     longer than CONTENT_LENGTH is an error of Read.
//   - So do responses: fields that are set behind WriteHeader are not sent, and a body that is
//     empty or encoded gets no Content-Type.
//   - The request's context is cancelled when the web server closes the connection, aborts the
//     request, or the handler returns.
//   - A panic of a handler ends its connection, is logged unless it is http.ErrAbortHandler,
//     and concerns nobody else.
//   - A connection serves one request at a time, and FCGI_MPXS_CONNS is 0. A request that begins
//     before another one has been received is refused with FCGI_CANT_MPX_CONN; one that follows
//     another waits for its response. No web server that we know of interleaves requests.
//     END_REQUEST frees the id: a request may begin then although STDIN of the last one has not ended.
//   - What a handler leaves of STDIN unread is read and dropped behind END_REQUEST, whatever its
//     size. It ends with the stream, with ABORT_REQUEST, or when another request begins. The
//     connection is closed if none of that comes in the time for it. The time is 30 seconds, or
//     what is left of ReadTimeout if that is shorter. From 256 KB on a record that has begun has
//     ReadHeaderTimeout. A connection without FCGI_KEEP_CONN is closed at once.
//   - GET_VALUES and unknown types of records get their replies when they are read, between the
//     records of a response. In STDIN that is when the handler reads so far, or has returned.
//     Behind STDIN it is when the handler has returned.
//   - FCGI_MAX_CONNS and FCGI_MAX_REQS are the limit on the process's descriptors. They are left
//     out on Windows.
//   - ABORT_REQUEST ends the body with an error. The request ends with END_REQUEST when its handler
//     returns, even if less than its Content-Length was written, and the connection is kept.
//   - Everything is bounded: the parameters (Server.MaxParamBytes), the time in which they must
//     have arrived, what is kept of a body.
//   - Malformed parameters, header fields and hosts that HTTP would not allow are answered with 400.
//   - Responses to HEAD and of status 204 and 304 have no body. Interim responses (1xx) are not
//     sent, for CGI has none. Content-Length is told when it is known. Fields about a
//     connection, and one called Status, are dropped (RFC 3875, 6.3.4). What is longer or shorter than the handler's
//     Content-Length ends the connection unless the request was aborted, so that nobody takes it for whole.
//   - http.ResponseController sets deadlines; Hijack is not supported.
//   - The web server's log can be written to: see Stderr.
package fcgi
