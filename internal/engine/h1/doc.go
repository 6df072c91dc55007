// Package h1 is the codec of HTTP/1: it connects the grammar of package wire/http1 with exchanges.
//
// codec.go parses heads and writes responses. request.go makes exchanges of heads, and reads
// chunked bodies.
package h1
