package h1

import (
	"net/http"

	"github.com/tarehq/tare/internal/engine/exchange"
)

// prefaceHead is the part of HTTP/2's preface that looks like a request's head. If the server does
// not serve HTTP/2 without TLS itself, handlers receive it as a request, as they do from net/http.
// They may hijack the connection and speak HTTP/2.
const prefaceHead = "PRI * HTTP/2.0\r\n\r\n"

// beginsPreface reports in ok whether in is prefaceHead or its beginning, and in whole whether it
// is complete.
func beginsPreface(in []byte) (whole, ok bool) {
	n := min(len(in), len(prefaceHead))
	return n == len(prefaceHead), string(in[:n]) == prefaceHead[:n]
}

// newPrefaceExchange makes the same request of it as net/http.
func newPrefaceExchange(c *exchange.Conn) *exchange.Exchange {
	x := &exchange.Exchange{}
	c.Prepare(x)
	r := &x.Request
	r.Method, r.RequestURI, r.Proto, r.ProtoMajor, r.ProtoMinor = "PRI", "*", "HTTP/2.0", 2, 0
	x.URL.Path = "*"
	r.URL, r.Header, r.Body = &x.URL, make(http.Header), http.NoBody
	r.ContentLength, r.Close = -1, true
	x.Body.Init(x, exchange.NoBody, 0, false)
	x.Response.Init(c, x, 1, false)
	return x
}
