// Package client sends requests over HTTP/1.1, HTTP/2 and FastCGI, and receives the responses.
// The Transports of the public packages and the front use it.
//
// # Words
//
//	exchange   a request and its response
//	slab       the fixed-size memory of an exchange: the caller keeps parts of it
//	scratch    the buffers of an exchange, which are reused
//	piece      a part of a request's body that one write sends
//	slot       the right to open a connection to a host
//	codec      what differs between the protocols in an exchange: see protocol.go
//
// # An exchange
//
// The goroutine that calls RoundTrip writes the request and then reads the response. A connection
// in use has no goroutine and no channel, and a timer only if a timeout is set. A second goroutine
// sends a body if it is long or not in memory, so that the server may respond before the body ends.
//
// An exchange passes through these states:
//
//	prepared    the request is checked and encoded into the scratch (codec.route, codec.encode)
//	connected   it has a connection, idle or new (exchange.conn)
//	sending     the head is being sent, then the body (exchange.progress)
//	receiving   the goroutine of RoundTrip reads the response's head (codec.receiveHead)
//	body        the caller reads the response's body (codec.readBody), or a loop does (loopDelivery)
//	ended       the connection is kept, closed, detached, or left to the sender
//
// It ends exactly once (see exchange.end): when the response has been read to its end, when its
// context ends, when the caller closes the body, or when an error occurs. Ending it returns the
// connection to the pool or closes it. A response may end while the last bytes of the request are
// still being sent. Then the connection is left to the sender, which keeps or closes it.
//
// If a reused connection turns out to be closed, a second exchange takes over the encoded request
// and sends it on a new connection (see slab.retry).
//
// # HTTP/2
//
// Package h2 has the connections (see http2Exchange). They lie in the pool like others, but several
// exchanges share one (see poolshare.go). Whether a server speaks HTTP/2 is known from its
// connections. TLS negotiates it anew when none is left.
//
// An exchange whose server has not processed the request is attempted five times at most, with
// pauses. For a proxy that holds only if the connection was reused: another server may respond.
//
// # Files
//
//	exchange, send, receive, body, error   an exchange, whatever its protocol
//	memory                                 what a proxy's exchange has of its own
//	protocol                               the interfaces that the protocols implement
//	http1*, upgrade, inflate               HTTP/1.1
//	http2*                                 HTTP/2, over the connections of package h2
//	fastcgi*, params                       FastCGI
//	pool*, conn                            connections: idle, in use, shared, watched
//	unixconn                               unix sockets that wake a proxy for input only
//	rawexchange, directconn                sockets whose system calls bypass the scheduler
//	loopdelivery                           bodies that an event loop receives
//	other                                  what takes their place where Linux is missing
//	address, dial, proxy, socks            how connections are opened
//
// # Memory
//
// Callers may keep what they receive. One slab holds the Response, its values and a small body. One
// string holds all text of the head, and of a small body. The buffers are reused, and no caller can
// see one. Tests run with -tags poison, which overwrites buffers before their reuse.
//
// A proxy brings memory of its own (see Memory). Its responses have no Header until it is needed:
// the head stays as it was received, and a small body beside it. Both are valid until Reset.
package client
