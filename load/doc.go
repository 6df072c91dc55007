// Package load sends requests to a server and measures its responses. It speaks HTTP/1.0, HTTP/1.1
// and HTTP/2, and FastCGI in the role of the web server, over TCP, TLS or unix sockets. It runs on
// Linux; elsewhere Run returns errors.ErrUnsupported.
//
// A [Plan] describes the requests, the server and the duration. A [Result] holds the measurements.
// Both are plain values. If its context ends early, [Run] returns what it measured until then. A
// [Session] measures in slices and keeps its connections open between them. A [Search] finds the
// highest rate that meets a [Goal].
//
// In a closed loop, each connection sends a request, waits for the whole response and sends the
// next one. In an open loop (a Plan with a [Pace]), each request is sent when it is due. A worker
// is one thread that polls its share of the connections. A request costs the worker one system call
// to send, one to receive, and its share of a poll. Only requests made from a template allocate
// memory.
//
// # What is counted
//
// A run has a warm-up, which is not counted, and a measured time. A response counts if its last
// byte arrives in the measured time. Its latency runs from just before the request was sent until
// that byte arrived. A closed loop cannot show the requests that a slow server kept it from
// sending.
//
// In an open loop, latency runs from when the request was due. If no connection was free at that
// time, the wait is part of the latency. Responses with status 400 or above, and responses that the
// Plan does not expect, count both as requests and as errors.
//
// A Plan with a number of Requests and no warm-up measures from the first connection on. It sends
// exactly that many requests. Each one ends with a response or a failure. A request is retried if
// the server closed the connection in a way that the protocol allows.
//
// # The generator itself
//
// The generator affects what it measures, most of all on the server's machine. Result.Generator
// reports its CPU time, the CPU share of its busiest thread and, in an open loop, how late it sent
// requests. Result.Doubts reports when the generator, not the server, may have limited the rate.
//
// # HTTP/2
//
// The header blocks of requests are as compact as those of other clients. Over TLS, HTTP/2 is
// negotiated by ALPN; without TLS the generator assumes it (prior knowledge). A connection carries
// as many concurrent streams as Plan.Pipeline and the server's settings allow; one until these
// arrive. A stream that was reset or refused counts as an error, while its connection stays open.
// The generator retries a stream above the last stream ID of a GOAWAY frame. If several connections
// in a row end so without a response, these streams count as refused.
//
// # FastCGI
//
// Each request has the role RESPONDER and request ID 1. It has the flag FCGI_KEEP_CONN unless it is
// the last one on its connection. All its records are sent together. A response has a CGI head and
// ends with END_REQUEST. It counts as a read error if END_REQUEST reports a refusal, or the head is
// missing. The same applies if Content-Length differs from the body's length, or a record belongs
// to no request. The type [FastCGI] holds what only FastCGI reports.
//
// # Glossary
//
//   - worker: a thread with its share of the connections
//   - coordinator: the goroutine that called Run, which starts phases and merges results
//   - exchange: a request and its response
//   - busy connection: one that sends requests, unlike a spare connection
//   - due: when the schedule of an open loop requires a request to be sent
//   - lag: how late the generator itself sent a request, although a connection was free
//   - slice: a part of a Session's measured time
//   - waker: an eventfd by which the coordinator wakes a worker
package load
