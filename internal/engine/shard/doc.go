// Package shard serves connections on event loops, one for each P. It needs epoll, and is empty on
// systems other than Linux.
//
// A Group is the shards of a server. It receives the settings of each listener as a Config, and
// what servers share with their connections as an exchange.ServerState. It knows nothing else of
// the server. Protocols are those of the Config's codec and of package h2.
//
// # Loops and runners
//
// A shard is a poll loop that a runner leads. The leader serves whatever has become ready and runs
// the handlers itself. A connection that waits is a shardConn: a descriptor and the part of a head
// that has arrived, without a goroutine and without a buffer: 0.4 KB instead of the 20 KB that
// net/http keeps. A request costs a fifth less than with a goroutine for each connection.
//
// Handlers may block. Package sched therefore guesses which routes block, and their requests are
// handed to other runners. If a handler holds up a loop, its runner loses the lead: another runner
// leads the loop, and the old one finishes its connection. Read package sched, shard_linux.go,
// lead_linux.go, runner_linux.go and shardconn_linux.go in this order.
//
// The leader serves all connections that are ready and then sends their responses
// (lead_linux.go).
//
// A handler may leave its response unfinished (exchange.Response.TrySender). No runner then has the
// connection, which keeps its conn, until another one ends the response.
//
// # Accepting
//
// Package net accepts while few connections arrive, and shards while many do (accept_linux.go).
//
// # TLS
//
// The connections of a Config with a tls.Config have a TLS layer: a tls.Conn of package tls above a
// transport that never blocks (tlslayer_linux.go). Only the handshake has a goroutine, which begins
// when the client's first message has arrived (tlshandshake_linux.go). Then the connection waits on
// its shard, and holds no more than what package tls keeps.
//
// The first byte decides whether a client speaks TLS. If it does not, and there is a
// Config.Plaintext, no handshake begins, and those settings apply.
//
// # HTTP/2
//
// The session of an HTTP/2 connection is served in turns (session_linux.go).
//
// # Glossary
//
//   - runner: a goroutine of a shard; one leads the loop, the others run handlers that block.
//   - holder: the shard that accepts the connections of a listener.
//   - origin: a listener and a context; its connections share it.
//   - outbox: complete responses that wait until the leader has served other connections.
//   - stall guard: a goroutine that takes the lead from a runner whose handler holds up the loop.
//   - hand-off: the move of an exchange from the loop to another runner.
package shard
