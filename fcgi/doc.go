// Package fcgi implements FastCGI 1.0. Serve and Server serve an http.Handler behind a web server.
// Transport is an http.RoundTripper that sends requests to FastCGI applications.
//
// Serve and ProcessEnv have the signatures of those in net/http/fcgi: a program changes its import
// path and nothing else. They use the engine of package tare, so a request takes about as much CPU
// time as over HTTP. On Linux, one read receives a small request, a quick handler runs on the poll
// loop, and one write sends a small response. Server also has timeouts, limits and Shutdown.
//
// # Differences from net/http/fcgi
//
//   - Requests look like those of an HTTP server. RequestURI is set, URL is the path and the
//     query, and Close is false. A field that occurs several times has all its values.
//     ContentLength is -1 if there is a body and no CONTENT_LENGTH. If a body is shorter than
//     CONTENT_LENGTH, Read fails. What exceeds CONTENT_LENGTH is dropped as it arrives.
//   - Responses look like those of an HTTP server, too. Fields that are set after WriteHeader are
//     not sent. A body that is empty or encoded gets no Content-Type.
//   - The request's context is canceled when the web server closes the connection or aborts the
//     request, and when the handler returns.
//   - A panic of a handler closes its connection only. It is logged unless it is
//     http.ErrAbortHandler.
//   - A connection serves one request at a time, and FCGI_MPXS_CONNS is 0. A request that begins
//     before the previous one has been received is rejected with FCGI_CANT_MPX_CONN. One that
//     begins later waits for the previous response. Known web servers do not interleave requests.
//     END_REQUEST frees the ID: then a request may begin even if STDIN of the previous one goes on.
//   - The remainder of STDIN that a handler does not read is read and dropped after END_REQUEST,
//     whatever its size. It ends with the stream, with ABORT_REQUEST, or when another request
//     begins. If none of them comes within 30 seconds, or within the rest of ReadTimeout if that
//     is shorter, the connection is closed. From 256 KB on, a record that has begun must end
//     within ReadParamsTimeout. A connection without FCGI_KEEP_CONN is closed at once. More than
//     1 MB of records that belong to no request end the connection.
//   - GET_VALUES and unknown record types get their replies when they are read, between the
//     records of a response. Within STDIN, that is when the handler reads so far, or has returned.
//     After STDIN, it is when the handler has returned.
//   - ABORT_REQUEST ends the body with an error. END_REQUEST is sent when the handler returns,
//     even if it has written less than its Content-Length, and the connection is kept.
//   - Everything has a limit: the parameters (Server.MaxParamBytes), the time in which they must
//     arrive, and the buffered part of a body.
//   - Parameters, header fields and hosts that are malformed or not valid in HTTP get 400.
//   - Responses to HEAD, and those with status 204 and 304, have no body. Interim responses (1xx)
//     are not sent, because CGI has none. Content-Length is sent if it is known. Fields that
//     concern a connection, and a field called Status, are dropped (RFC 3875, 6.3.4). If a body is
//     longer or shorter than the handler's Content-Length, the connection is closed unless the
//     request was aborted. So no web server takes the response for complete.
//   - http.ResponseController sets deadlines. Hijack is not supported.
//   - A handler can write to the web server's log: see Stderr.
package fcgi
