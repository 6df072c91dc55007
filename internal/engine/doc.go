// Package engine serves HTTP/1.1, HTTP/2 and FastCGI connections to an http.Handler.
//
// # Rooms
//
//	engine        Server: listeners, limits, shutdown, shards, the hand-over to net/http's HTTP/2
//	  netconn     connections that have a goroutine each
//	  h1, fastcgi codecs: requests in the input, responses in the output
//	  h2          sessions of HTTP/2, whose streams carry an exchange each
//	  exchange    requests, bodies, contexts and responses, for any codec and any connection
//	  predict     guesses which handlers block
//	  reuse       goroutines that serve one connection after another
//
// Shards need epoll, and lie in the files of this package that end in _linux.go.
//
// # The life of a connection
//
// Server.Serve accepts it, or on Linux a shard (accept_linux.go). An exchange.Conn reads until its
// codec has parsed a complete head, makes an exchange of the head, runs the handler, and writes the
// response. Then it reads the next head.
//
// # Two paths
//
// Two paths drive an exchange.Conn. On the goroutine path a netconn.Conn serves any net.Conn: a
// worker goroutine waits for its input and runs its handlers until the connection ends. This path
// serves custom listeners, those of package tls among them, systems other than Linux, and servers
// whose hooks receive every net.Conn.
//
// On Linux, shards serve TCP and unix sockets, and TLS on them, one shard for each P. A shard is a
// poll loop that a runner leads. The leader serves whatever has become ready and runs the handlers
// itself. A connection that waits is a shardConn: a descriptor and the part of a head that has
// arrived, without a goroutine and without a buffer.
//
// Handlers may block. A predictor therefore guesses which routes block, and their requests are
// handed to other runners. If a handler holds up a loop, its runner loses the lead: another runner
// leads the loop, and the old one finishes its connection. Read shard_linux.go, runner_linux.go,
// shardconn_linux.go, package predict and stallguard_linux.go in this order.
//
// # TLS on shards
//
// ServeTLS receives a listener of plain connections, and a tls.Config. Its connections have a TLS
// layer: a tls.Conn of package tls above a transport that never blocks (tlslayer_linux.go). Only
// the handshake has a goroutine, which begins when the client's first message has arrived
// (tlshandshake_linux.go). Then the connection waits on its shard, and holds no more than what
// package tls keeps. One that has negotiated another protocol than HTTP leaves the shard for the
// goroutine path, which calls a function of TLSNextProto with the tls.Conn.
//
// # HTTP/2
//
// An HTTP/2 connection has a session, which turns frames into streams. On the goroutine path, the
// connection's goroutine reads the frames, and each handler has a goroutine. On shards, a session
// is served in turns (session_linux.go).
//
// # Ownership
//
// Everything that a handler receives (Request, Header, URL, context, every string) is made for that
// request and never reused. It lies in one allocation, the exchange, and in one string that holds
// the whole head. Buffers belong to the conn, which serves one connection after another. No handler
// ever sees a buffer. The garbage that results is the reason for reserve.go.
//
// Semantics are those of net/http, which the tests compare with. Where net/http is lenient about
// framing, this package is strict: see package http1.
//
// # Glossary
//
//   - conn: an exchange.Conn, the buffers and the codec that serve a connection.
//   - transport: the connection beneath a conn, a netconn.Conn or a shardConn.
//   - codec: what differs between protocols. Each conn has one, which holds the protocol's state.
//   - extras: what a protocol has beyond HTTP/1, such as parameters; part of an exchange.
//   - exchange: one request and its response, with everything of fixed size in one allocation.
//   - shard: an event loop and the runners that serve its connections.
//   - holder: the shard that accepts the connections of a listener.
//   - runner: a goroutine of a shard; one leads the loop, the others run handlers that block.
//   - predictor: a table that guesses from past requests whether a route blocks.
//   - stall guard: a goroutine that takes the lead from a runner whose handler holds up the loop.
//   - hand-off: the move of an exchange from the loop to another runner.
//   - remainder: the bytes of a request body that the handler did not read.
//   - flush gate: complete responses in the output that another goroutine may send.
package engine
