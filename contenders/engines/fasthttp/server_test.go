// Package fasthttp_test measures fasthttp, through its own API.
package fasthttp_test

import (
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/tarehq/tare/contenders/engines"
)

// perClient is the number of connections of a client that may be ending while its next is accepted.
const perClient = 16

type server struct{ fasthttp.Server }

// Close releases nothing: Serve does. Shutdown would wait a tenth of a second.
func (s *server) Close() error { return nil }

func newServer(site *engines.Site) engines.Server {
	response, last := site.Body(), site.Last()
	return &server{fasthttp.Server{Concurrency: perClient * site.Clients, Handler: func(ctx *fasthttp.RequestCtx) {
		ctx.Success("text/plain", response)
		if last {
			ctx.SetConnectionClose()
		}
		site.Count(ctx.IsGet())
	}}}
}

func serverGet(b *testing.B, site *engines.Site) { engines.ServerGet(b, site, newServer) }

func BenchmarkServerGet1ReqPerConn(b *testing.B) { serverGet(b, engines.PerConn(1)) }

func BenchmarkServerGet2ReqPerConn(b *testing.B) { serverGet(b, engines.PerConn(2)) }

func BenchmarkServerGet10ReqPerConn(b *testing.B) { serverGet(b, engines.PerConn(10)) }

func BenchmarkServerGet10KReqPerConn(b *testing.B) { serverGet(b, engines.PerConn(10000)) }

func BenchmarkServerGet1ReqPerConn10KClients(b *testing.B) {
	serverGet(b, engines.PerConn10KClients(1))
}

func BenchmarkServerGet2ReqPerConn10KClients(b *testing.B) {
	serverGet(b, engines.PerConn10KClients(2))
}

func BenchmarkServerGet10ReqPerConn10KClients(b *testing.B) {
	serverGet(b, engines.PerConn10KClients(10))
}

func BenchmarkServerGet100ReqPerConn10KClients(b *testing.B) {
	serverGet(b, engines.PerConn10KClients(100))
}
