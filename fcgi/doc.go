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
//   - Everything is bounded: the parameters (Server.MaxParamBytes), the time in which they must
//     have arrived, what is kept of a body.
//   - Malformed parameters, header fields and hosts that HTTP would not allow are answered with 400.
//   - Responses to HEAD and of status 204 and 304 have no body. Interim responses (1xx) are not
//     sent, for CGI has none. Content-Length is told when it is known. Fields about a
//     connection, and one called Status, are dropped (RFC 3875, 6.3.4). What is longer or shorter than the handler's
//     Content-Length ends the connection, so that nobody takes it for whole.
//   - http.ResponseController sets deadlines; Hijack is not supported.
//   - The web server's log can be written to: see Stderr.
package fcgi
