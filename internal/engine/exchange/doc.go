// Package exchange serves HTTP requests to an http.Handler, whatever connection and protocol carry
// them.
//
// A Conn holds the buffers that serve a connection. It has two neighbors behind interfaces. Its
// Codec finds requests in the input and writes responses to the output (packages h1, h2 and
// fastcgi). Its Transport is what is beneath it, which also decides when the Conn runs: the
// connection (packages netconn and shard), or a stream of HTTP/2.
//
// What a handler receives is an Exchange: the Request, its Body, its context and the Response, in
// one allocation. Read conn.go, exchange.go, body.go, then response.go.
package exchange
