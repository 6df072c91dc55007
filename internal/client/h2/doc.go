// Package h2 is the client's side of HTTP/2 connections (RFC 9113): frames, streams, windows,
// settings and timers. It knows neither pools nor dialing nor http.Request. Its Host manages
// connections.
//
// # A stream
//
//	         Open                       Write with isLast, WriteTrailer
//	reserved ────▶ open ──────────────────────────────────────────▶ sent (outEnded)
//	                 │ END_STREAM arrives (inEnded): the rest of        │
//	                 │ the request is dropped by RST_STREAM(NO_ERROR)   │ END_STREAM arrives
//	                 ▼                                                  ▼
//	               closed ◀─────────────────────────────────────────  closed
//
// A stream that fails (err) is closed at once, from any state: by a stream error, RST_STREAM,
// Abort, GOAWAY or the end of the connection. Host.StreamClosed reports each closing, once. What
// has arrived of a closed stream can still be read.
//
// The response of a stream passes through its heads (AwaitHead), of which the last one is final,
// its content (Read), and its trailer section.
//
// # Goroutines and locks
//
// One goroutine reads from a connection. It waits for nothing else: what it receives is stored, and
// the windows limit how much. If the goroutine of a stream waits in Deliver, that of the connection
// calls its function, which does not wait either. Conn.mu guards everything else, and nobody waits
// while holding it. Frames are appended to the output under the mutex. A goroutine that lives as long
// as there is output sends it without the mutex. So no caller of this package waits for the network,
// except in AwaitHead, Read and Write.
//
// # What a server may do
//
// A violation of the protocol ends the stream or the connection. Frames that serve no purpose are
// paid for from a ledger. A connection that is silent, or accepts no bytes, ends after a time (see
// health and output). Until then no new streams are opened on it.
//
// # Glossary
//
//   - head: the fields of a response, or of an interim one.
//   - content: the bytes of DATA frames, without padding.
//   - ledger: the frames that cost the client more than they bring.
//   - suspect: a connection on which nothing has arrived since a request that was abandoned.
package h2
