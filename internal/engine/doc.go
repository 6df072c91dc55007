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
// whose hooks or functions of TLSNextProto receive a net.Conn. Listeners of this module may return
// connections whose sockets take the other path (connection.AboveSocket).
//
// On Linux, shards serve TCP and unix sockets, and TLS on them, one shard for each P. For TLS,
// ServeTLS receives a listener of plain connections, and a tls.Config.
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
// the whole head. Buffers belong to the exchange.Conn, which serves one connection after another.
// No handler ever sees a buffer.
//
// Semantics are those of net/http, which the tests compare with. Where net/http is lenient about
// framing, this package is strict: see package http1.
package engine
