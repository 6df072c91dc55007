// Package tare_test measures tare, in front of the same handler as net/http.
package tare_test

import (
	"net/http"
	"testing"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/contenders/engines"
)

func newServer(s *engines.Site) engines.Server { return tare.Wrap(&http.Server{Handler: s.Handler()}) }

func perConn(b *testing.B, requests int) { engines.ServerGet(b, engines.PerConn(requests), newServer) }

func perConn10K(b *testing.B, requests int) {
	engines.ServerGet(b, engines.PerConn10KClients(requests), newServer)
}

func BenchmarkTareServerGet1ReqPerConn(b *testing.B)   { perConn(b, 1) }
func BenchmarkTareServerGet2ReqPerConn(b *testing.B)   { perConn(b, 2) }
func BenchmarkTareServerGet10ReqPerConn(b *testing.B)  { perConn(b, 10) }
func BenchmarkTareServerGet10KReqPerConn(b *testing.B) { perConn(b, 10_000) }

func BenchmarkTareServerGet1ReqPerConn10KClients(b *testing.B)   { perConn10K(b, 1) }
func BenchmarkTareServerGet2ReqPerConn10KClients(b *testing.B)   { perConn10K(b, 2) }
func BenchmarkTareServerGet10ReqPerConn10KClients(b *testing.B)  { perConn10K(b, 10) }
func BenchmarkTareServerGet100ReqPerConn10KClients(b *testing.B) { perConn10K(b, 100) }

// newClient returns a client with tare's Transport.
func newClient(o engines.ClientOptions) engines.Client {
	t := &tare.Transport{MaxIdleConnsPerHost: o.Conns, DialContext: o.DialContext()}
	return &engines.HTTPClient{Client: http.Client{Transport: t}}
}

// newEcho returns a server whose response body is the request's path.
func newEcho() engines.Server {
	return tare.Wrap(&http.Server{Handler: http.HandlerFunc(engines.Echo)})
}

func overTCP(b *testing.B, parallelism int) { engines.EndToEndTCP(b, parallelism, newClient, newEcho) }

func inMemory(b *testing.B, parallelism int) {
	engines.EndToEndInmemory(b, parallelism, newClient, newEcho)
}

func BenchmarkTareClientDoFastServer(b *testing.B) { engines.DoFastServer(b, newClient) }

func BenchmarkTareClientGetEndToEnd1TCP(b *testing.B)   { overTCP(b, 1) }
func BenchmarkTareClientGetEndToEnd10TCP(b *testing.B)  { overTCP(b, 10) }
func BenchmarkTareClientGetEndToEnd100TCP(b *testing.B) { overTCP(b, 100) }

func BenchmarkTareClientGetEndToEnd1Inmemory(b *testing.B)    { inMemory(b, 1) }
func BenchmarkTareClientGetEndToEnd10Inmemory(b *testing.B)   { inMemory(b, 10) }
func BenchmarkTareClientGetEndToEnd100Inmemory(b *testing.B)  { inMemory(b, 100) }
func BenchmarkTareClientGetEndToEnd1000Inmemory(b *testing.B) { inMemory(b, 1000) }
