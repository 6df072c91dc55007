// Package engine serves HTTP/1.1, HTTP/2 and FastCGI connections to an http.Handler.
//
// ARCHITECTURE.md lists the rooms below this one. None of them knows the Server: they receive
// settings, and what a Server shares with its connections (exchange.ServerState).
//
// # The life of a connection
//
// Server.Serve accepts it, or on Linux a shard. An exchange.Conn reads until its codec has parsed a
// complete head, makes an exchange of the head, runs the handler, and writes the response. Then it
// reads the next head.
//
// # Two paths
//
// Two paths drive an exchange.Conn. On the goroutine path a netconn.Conn serves any net.Conn: a
// worker goroutine waits for its input and runs its handlers until the connection ends. This path
// serves custom listeners, those of package tls among them, systems other than Linux, and servers
// whose hooks receive every net.Conn. Listeners of this module may return connections whose sockets
// take the other path (adopt.go).
//
// On Linux, shards serve TCP and unix sockets, and TLS on them, one shard for each P. For TLS,
// ServeTLS receives a listener of plain connections, and a tls.Config. A connection that has
// negotiated a protocol other than HTTP leaves its shard for the goroutine path, which calls a
// function of TLSNextProto with the tls.Conn.
//
// # HTTP/2
//
// An HTTP/2 connection has a session, which turns frames into streams. On the goroutine path, the
// connection's goroutine reads the frames, and each handler has a goroutine. On shards, a session
// is served in turns.
//
// # Ownership
//
// Everything that a handler receives (Request, Header, URL, context, every string) is made for that
// request and never reused. It lies in one allocation, the exchange, and in one string that holds
// the whole head. Buffers belong to the conn, which serves one connection after another. No handler
// ever sees a buffer.
//
// Semantics are those of net/http, which the tests compare with. Where net/http is lenient about
// framing, this package is strict: see package http1.
//
// # Glossary
//
//   - conn: an exchange.Conn, the buffers and the codec that serve a connection.
//   - transport: what is beneath a conn: a connection, or a stream of HTTP/2.
//   - codec: the parser and the sink of a protocol, which hold its state.
//   - parser: finds requests in the input of a connection.
//   - sink: frames a response in the output.
//   - extras: what a protocol has beyond HTTP/1, such as parameters; part of an exchange.
//   - exchange: one request and its response, with everything of fixed size in one allocation.
//   - flush gate: complete responses in the output that another goroutine may send.
package engine
