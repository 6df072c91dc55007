package pairs_test

import (
	"net/http"
	"testing"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/contenders/engines"
	"github.com/tarehq/tare/contenders/engines/fastclient"
)

// newClient returns a client.
type newClient func(engines.ClientOptions) engines.Client

// clients are the libraries' clients by name. All keep the same number of connections.
type clients struct{ tare, nethttp, fasthttp newClient }

// pairs runs a sub-benchmark with each client.
func (c clients) pairs(b *testing.B, measure func(*testing.B, newClient)) {
	b.Run("tare", func(b *testing.B) { measure(b, c.tare) })
	b.Run("nethttp", func(b *testing.B) { measure(b, c.nethttp) })
	b.Run("fasthttp", func(b *testing.B) { measure(b, c.fasthttp) })
}

// keeping returns clients as users configure them.
func keeping() clients { return clients{newTare, newNetHTTP, fastclient.New} }

func newTare(o engines.ClientOptions) engines.Client {
	t := &tare.Transport{MaxIdleConnsPerHost: o.Conns, DialContext: o.DialContext()}
	return &engines.HTTPClient{Client: http.Client{Transport: t}}
}

func newNetHTTP(o engines.ClientOptions) engines.Client {
	t := &http.Transport{MaxIdleConnsPerHost: o.Conns, DialContext: o.DialContext()}
	return &engines.HTTPClient{Client: http.Client{Transport: t}}
}

// newEcho returns the server of all pairs. Its response body is the request's path.
func newEcho() engines.Server {
	return tare.Wrap(&http.Server{Handler: http.HandlerFunc(engines.Echo)})
}

func BenchmarkDoFastServer(b *testing.B) {
	keeping().pairs(b, func(b *testing.B, c newClient) { engines.DoFastServer(b, c) })
}

func endToEndTCP(b *testing.B, parallelism int) {
	keeping().pairs(b, func(b *testing.B, c newClient) { engines.EndToEndTCP(b, parallelism, c, newEcho) })
}

func endToEndInmemory(b *testing.B, parallelism int) {
	keeping().pairs(b, func(b *testing.B, c newClient) { engines.EndToEndInmemory(b, parallelism, c, newEcho) })
}

func BenchmarkGetEndToEnd1TCP(b *testing.B)   { endToEndTCP(b, 1) }
func BenchmarkGetEndToEnd10TCP(b *testing.B)  { endToEndTCP(b, 10) }
func BenchmarkGetEndToEnd100TCP(b *testing.B) { endToEndTCP(b, 100) }

func BenchmarkGetEndToEnd1Inmemory(b *testing.B)    { endToEndInmemory(b, 1) }
func BenchmarkGetEndToEnd10Inmemory(b *testing.B)   { endToEndInmemory(b, 10) }
func BenchmarkGetEndToEnd100Inmemory(b *testing.B)  { endToEndInmemory(b, 100) }
func BenchmarkGetEndToEnd1000Inmemory(b *testing.B) { endToEndInmemory(b, 1000) }
