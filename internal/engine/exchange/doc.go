// Package exchange serves HTTP requests to an http.Handler, whatever connection and protocol carry
// them.
//
// A Conn holds the buffers that serve a connection; Conns is a free list of them. A Conn has two
// neighbors behind interfaces. Its Codec (packages h1 and fastcgi) is a Parser, which finds requests
// in the input, and a Sink, which frames responses in the output (codec.go). Its Connection is what
// is beneath it, which also decides when the Conn runs (packages netconn and shard). A stream of
// HTTP/2 (package h2) has neither: it is the Sink itself, and the Transport.
//
// What a handler receives is an Exchange: the Request, its Body, its context and the Response, in
// one allocation. Read conn.go, exchange.go, body.go, then response.go.
package exchange
