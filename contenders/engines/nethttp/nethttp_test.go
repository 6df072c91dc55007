// Package nethttp_test measures Go's standard library.
package nethttp_test

import (
	"net/http"
	"testing"

	"github.com/tarehq/tare/contenders/engines"
)

func newServer(s *engines.Site) engines.Server { return &http.Server{Handler: s.Handler()} }

func perConn(b *testing.B, requests int) { engines.ServerGet(b, engines.PerConn(requests), newServer) }

func perConn10K(b *testing.B, requests int) {
	engines.ServerGet(b, engines.PerConn10KClients(requests), newServer)
}

func BenchmarkNetHTTPServerGet1ReqPerConn(b *testing.B)   { perConn(b, 1) }
func BenchmarkNetHTTPServerGet2ReqPerConn(b *testing.B)   { perConn(b, 2) }
func BenchmarkNetHTTPServerGet10ReqPerConn(b *testing.B)  { perConn(b, 10) }
func BenchmarkNetHTTPServerGet10KReqPerConn(b *testing.B) { perConn(b, 10_000) }

func BenchmarkNetHTTPServerGet1ReqPerConn10KClients(b *testing.B)   { perConn10K(b, 1) }
func BenchmarkNetHTTPServerGet2ReqPerConn10KClients(b *testing.B)   { perConn10K(b, 2) }
func BenchmarkNetHTTPServerGet10ReqPerConn10KClients(b *testing.B)  { perConn10K(b, 10) }
func BenchmarkNetHTTPServerGet100ReqPerConn10KClients(b *testing.B) { perConn10K(b, 100) }

func newClient(o engines.ClientOptions) engines.Client {
	t := &http.Transport{MaxIdleConnsPerHost: o.Conns, DialContext: o.DialContext()}
	return &engines.HTTPClient{Client: http.Client{Transport: t}}
}

func newEcho() engines.Server { return &http.Server{Handler: http.HandlerFunc(engines.Echo)} }

func overTCP(b *testing.B, parallelism int) { engines.EndToEndTCP(b, parallelism, newClient, newEcho) }

func inMemory(b *testing.B, parallelism int) {
	engines.EndToEndInmemory(b, parallelism, newClient, newEcho)
}

func BenchmarkNetHTTPClientDoFastServer(b *testing.B) { engines.DoFastServer(b, newClient) }

func BenchmarkNetHTTPClientGetEndToEnd1TCP(b *testing.B)   { overTCP(b, 1) }
func BenchmarkNetHTTPClientGetEndToEnd10TCP(b *testing.B)  { overTCP(b, 10) }
func BenchmarkNetHTTPClientGetEndToEnd100TCP(b *testing.B) { overTCP(b, 100) }

func BenchmarkNetHTTPClientGetEndToEnd1Inmemory(b *testing.B)    { inMemory(b, 1) }
func BenchmarkNetHTTPClientGetEndToEnd10Inmemory(b *testing.B)   { inMemory(b, 10) }
func BenchmarkNetHTTPClientGetEndToEnd100Inmemory(b *testing.B)  { inMemory(b, 100) }
func BenchmarkNetHTTPClientGetEndToEnd1000Inmemory(b *testing.B) { inMemory(b, 1000) }
