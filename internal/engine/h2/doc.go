// Package h2 serves HTTP/2 (RFC 9113): it turns the frames of a connection into exchanges, and the
// responses of exchanges into frames.
//
// A Session is the state of one connection. It neither reads nor waits: its host feeds it with
// input and runs the handlers of its streams. A host is a shard's loop or a goroutine for each
// connection; a Carrier is what a session needs of the connection beneath it.
//
// An exchange.Conn serves one request at a time. While its handler runs, a Stream has a Conn of its
// own. The Stream is its Source, its Sink and its Transport.
//
// # Turns
//
// A host serves a session in turns. The goroutine that holds the turn passes all input that has
// arrived to Receive, and then runs the streams that Next returns, either itself or in other
// goroutines. In the end it flushes the output. One write thus carries the responses of a turn.
//
// A handler that runs in another goroutine sends its response when it returns. If others still run,
// its goroutine first gathers what they append (Stream.Settle).
//
// A handler that the holder runs itself may block. The turn can then be taken over (Turn): another
// goroutine continues with the streams that are ready, and the first one only finishes its stream.
//
// # Locks
//
// Session.mu guards streams, windows and output. Nobody waits or runs a handler while holding it.
// The turn guards the input's state, which is read without the mutex.
//
// # Head blocks
//
// Response heads are encoded with the static table and literals only, never with the dynamic table.
// A stream can therefore encode its head without a lock and in any order. Each block announces a
// table of size 0, because clients that reduce their table reject the next block otherwise.
//
// # Glossary
//
//   - session: the HTTP/2 state of one connection.
//   - carrier: the connection beneath a session, a shardConn or a netconn.Conn.
//   - host: the goroutine that runs a handler, if the handler would hold up others by waiting.
//   - turn: the right to read a session's input and to run its streams.
//   - ledger: the work that a client has caused without using the responses.
package h2
