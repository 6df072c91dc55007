// Package load generates load and measures what comes back: over HTTP/1.1 or, as a web
// server in front of an application does, over FastCGI. It works on Linux; elsewhere Run
// returns errors.ErrUnsupported.
//
// Run keeps a number of connections busy: each sends a request, waits for the whole
// response, and sends the next (a closed loop). With a Rate, each sends a request when
// it is due (an open loop). A worker is a loop over a poller and a codec. A request
// costs it one call to send and one to receive, and its share of one that tells which
// connections are ready; nothing is allocated for it.
//
// # What is counted
//
// A run has a warm-up, which counts for nothing, and a measured time. A response
// counts if its last byte came in the measured time. Its latency is the time from
// just before its request was sent until that byte came. A closed loop says nothing
// of requests that were not sent because the server was slow. In an open loop latency
// counts from when a request was due: one that waits for its connection's last answer
// is late already. Responses of status 400 and above count both as requests and as
// errors.
//
// # FastCGI
//
// A request is for a responder, has id 1 and asks it to keep the connection. Its records
// are sent together. A response is whole with END_REQUEST; its head is a CGI program's. It
// is a read error if END_REQUEST says that the request was refused, if there is no head, if
// Content-Length says another number of bytes than came, or if records come that answer
// something else. What else there is to know of it is in the type FastCGI.
package load
