package nethttp_test

import (
	"net/http"
	"testing"

	"github.com/tarehq/tare/contenders/engines"
)

func newClient(o engines.ClientOptions) engines.Client {
	t := &http.Transport{MaxIdleConnsPerHost: o.Conns, DialContext: o.DialContext()}
	return &engines.HTTPClient{Client: http.Client{Transport: t}}
}

func newEcho() engines.Server { return &http.Server{Handler: http.HandlerFunc(engines.Echo)} }

func BenchmarkNetHTTPClientDoFastServer(b *testing.B) { engines.DoFastServer(b, newClient) }

func BenchmarkNetHTTPClientGetEndToEnd1TCP(b *testing.B) {
	engines.EndToEndTCP(b, 1, newClient, newEcho)
}

func BenchmarkNetHTTPClientGetEndToEnd10TCP(b *testing.B) {
	engines.EndToEndTCP(b, 10, newClient, newEcho)
}

func BenchmarkNetHTTPClientGetEndToEnd100TCP(b *testing.B) {
	engines.EndToEndTCP(b, 100, newClient, newEcho)
}

func BenchmarkNetHTTPClientGetEndToEnd1Inmemory(b *testing.B) {
	engines.EndToEndInmemory(b, 1, newClient, newEcho)
}

func BenchmarkNetHTTPClientGetEndToEnd10Inmemory(b *testing.B) {
	engines.EndToEndInmemory(b, 10, newClient, newEcho)
}

func BenchmarkNetHTTPClientGetEndToEnd100Inmemory(b *testing.B) {
	engines.EndToEndInmemory(b, 100, newClient, newEcho)
}

func BenchmarkNetHTTPClientGetEndToEnd1000Inmemory(b *testing.B) {
	engines.EndToEndInmemory(b, 1000, newClient, newEcho)
}
