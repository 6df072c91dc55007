package tare_test

import (
	"net/http"
	"testing"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/contenders/engines"
)

// newClient returns a client with tare's Transport.
func newClient(o engines.ClientOptions) engines.Client {
	t := &tare.Transport{MaxIdleConnsPerHost: o.Conns, DialContext: o.DialContext()}
	return &engines.HTTPClient{Client: http.Client{Transport: t}}
}

// newEcho returns a server whose response body is the request's path.
func newEcho() engines.Server {
	return tare.Wrap(&http.Server{Handler: http.HandlerFunc(engines.Echo)})
}

func BenchmarkTareClientDoFastServer(b *testing.B) { engines.DoFastServer(b, newClient) }

func BenchmarkTareClientGetEndToEnd1TCP(b *testing.B) { engines.EndToEndTCP(b, 1, newClient, newEcho) }

func BenchmarkTareClientGetEndToEnd10TCP(b *testing.B) {
	engines.EndToEndTCP(b, 10, newClient, newEcho)
}

func BenchmarkTareClientGetEndToEnd100TCP(b *testing.B) {
	engines.EndToEndTCP(b, 100, newClient, newEcho)
}

func BenchmarkTareClientGetEndToEnd1Inmemory(b *testing.B) {
	engines.EndToEndInmemory(b, 1, newClient, newEcho)
}

func BenchmarkTareClientGetEndToEnd10Inmemory(b *testing.B) {
	engines.EndToEndInmemory(b, 10, newClient, newEcho)
}

func BenchmarkTareClientGetEndToEnd100Inmemory(b *testing.B) {
	engines.EndToEndInmemory(b, 100, newClient, newEcho)
}

func BenchmarkTareClientGetEndToEnd1000Inmemory(b *testing.B) {
	engines.EndToEndInmemory(b, 1000, newClient, newEcho)
}
