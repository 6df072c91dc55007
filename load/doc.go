// Package load generates load and measures what comes back: over HTTP/1.0, HTTP/1.1 or HTTP/2
// or, as a web server in front of an application does, over FastCGI; by TCP, TLS or unix
// sockets. It works on Linux; elsewhere Run returns errors.ErrUnsupported.
//
// A Plan says what to send, where, and for how long; a Result tells what came of it. Both are
// values. Run ends early with its context, and returns what was measured until then.
//
// Run keeps a number of connections busy: each sends a request, waits for the whole
// response, and sends the next (a closed loop). With a Pace, each sends a request when
// it is due (an open loop). A worker is a loop over a poller and a codec. A request
// costs it one call to send and one to receive, and its share of one that tells which
// connections are ready; nothing is allocated for it, unless it is made from a template.
//
// # What is counted
//
// A run has a warm-up, which counts for nothing, and a measured time. A response
// counts if its last byte came in the measured time. Its latency is the time from
// just before its request was sent until that byte came. A closed loop says nothing
// of requests that were not sent because the server was slow. In an open loop latency
// counts from when a request was due: one that waits for its connection's last answer
// is late already. Responses of status 400 and above, and those that are not as a plan
// expects, count both as requests and as errors.
//
// A plan with a number of Requests, and no warm-up, measures from the first connection on:
// as many requests are sent as it says, and each of them is answered, or fails, or is sent
// again where a server closed the connection as it may.
//
// # The generator itself
//
// It is a part of what is measured. Result.Generator has its processor time, the busiest
// thread's share of a processor, and by how much it was late in an open loop; Result.Doubts says when that,
// and not the server, may have decided.
//
// # HTTP/2
//
// Frames and header blocks are those of golang.org/x/net/http2, on the same loop. Over TLS it is
// agreed on, else taken for granted. A connection has as many streams under way as the plan's
// Pipeline says and the server takes. A stream that was refused, or was not looked at before
// the server ended the connection, is sent again; one that was reset is an error of its own.
//
// # FastCGI
//
// A request is for a responder, has id 1 and asks it to keep the connection. Its records
// are sent together. A response is whole with END_REQUEST; its head is a CGI program's. It
// is a read error if END_REQUEST says that the request was refused, if there is no head, if
// Content-Length says another number of bytes than came, or if records come that answer
// something else. What else there is to know of it is in the type FastCGI.
package load
