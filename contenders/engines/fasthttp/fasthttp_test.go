// Package fasthttp_test measures fasthttp, through its own API.
package fasthttp_test

import (
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/tarehq/tare/contenders/engines"
	"github.com/tarehq/tare/contenders/engines/fastclient"
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

func perConn(b *testing.B, requests int) { engines.ServerGet(b, engines.PerConn(requests), newServer) }

func perConn10K(b *testing.B, requests int) {
	engines.ServerGet(b, engines.PerConn10KClients(requests), newServer)
}

func BenchmarkServerGet1ReqPerConn(b *testing.B)   { perConn(b, 1) }
func BenchmarkServerGet2ReqPerConn(b *testing.B)   { perConn(b, 2) }
func BenchmarkServerGet10ReqPerConn(b *testing.B)  { perConn(b, 10) }
func BenchmarkServerGet10KReqPerConn(b *testing.B) { perConn(b, 10_000) }

func BenchmarkServerGet1ReqPerConn10KClients(b *testing.B)   { perConn10K(b, 1) }
func BenchmarkServerGet2ReqPerConn10KClients(b *testing.B)   { perConn10K(b, 2) }
func BenchmarkServerGet10ReqPerConn10KClients(b *testing.B)  { perConn10K(b, 10) }
func BenchmarkServerGet100ReqPerConn10KClients(b *testing.B) { perConn10K(b, 100) }

// newEcho returns a server whose response body is the request's path.
func newEcho() engines.Server {
	return &server{fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) {
		ctx.Success("text/plain", ctx.RequestURI())
	}}}
}

func overTCP(b *testing.B, parallelism int) {
	engines.EndToEndTCP(b, parallelism, fastclient.New, newEcho)
}

func inMemory(b *testing.B, parallelism int) {
	engines.EndToEndInmemory(b, parallelism, fastclient.New, newEcho)
}

func BenchmarkClientDoFastServer(b *testing.B) { engines.DoFastServer(b, fastclient.New) }

func BenchmarkClientGetEndToEnd1TCP(b *testing.B)   { overTCP(b, 1) }
func BenchmarkClientGetEndToEnd10TCP(b *testing.B)  { overTCP(b, 10) }
func BenchmarkClientGetEndToEnd100TCP(b *testing.B) { overTCP(b, 100) }

func BenchmarkClientGetEndToEnd1Inmemory(b *testing.B)    { inMemory(b, 1) }
func BenchmarkClientGetEndToEnd10Inmemory(b *testing.B)   { inMemory(b, 10) }
func BenchmarkClientGetEndToEnd100Inmemory(b *testing.B)  { inMemory(b, 100) }
func BenchmarkClientGetEndToEnd1000Inmemory(b *testing.B) { inMemory(b, 1000) }
