// Package engine serves HTTP/1.1 connections to an http.Handler: where bytes,
// time, limits and handlers meet.
//
// # The life of a connection
//
// Server.Serve accepts it. A conn reads until internal/wire/http1 says that a head
// is complete, makes an exchange of it, runs the handler, and writes what the
// handler answered; then the next one.
//
// # Two paths
//
// Two things drive a conn. On the portable path a netConn does: any net.Conn, which a
// worker serves to its end, a goroutine that waits for its input and runs its handlers.
// TLS, custom listeners, systems other than Linux, and servers whose hooks are shown
// every net.Conn take it. What TLS needs beside is in tls.go; a connection that speaks
// HTTP/2 is handed to net/http, in http2.go. Read netconn.go, then workers.go.
//
// On Linux, TCP and unix sockets are served by shards, one for each P: a poll loop
// that a runner leads. The leader serves whatever has become ready, and runs the
// handlers itself. A socket that waits is a sock: a descriptor and what there is of a
// head, without a goroutine and without a buffer.
//
// Handlers may block. So a predictor says which have not been quick, and their
// requests are handed to other runners; and whoever is found to hold a loop up loses
// the lead of it: another runner leads on, and the old one finishes what it was at.
// The order to read this in is shard_linux.go, runner_linux.go, sock_linux.go,
// predict_linux.go, watcher_linux.go.
//
// # Who owns what
//
// Everything a handler is given (Request, Header, URL, context, every string) is
// made for that request and never used again. It lies in one slab, the exchange,
// and in one string that holds the whole head. Buffers belong to the conn, which
// serves one connection after another; no handler ever sees one.
//
// What that leaves to the collector is why there is reserve.go.
//
// Semantics are those of net/http, which the tests compare it with. Where net/http
// is lax about framing this package is strict: see package http1.
package engine
