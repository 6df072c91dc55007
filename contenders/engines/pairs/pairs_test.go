package pairs_test

import (
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/contenders/engines"
)

// newClient returns a client with tare's Transport.
func newClient(o engines.ClientOptions) engines.Client {
	t := &tare.Transport{MaxIdleConnsPerHost: o.Conns, DialContext: o.DialContext()}
	return &engines.HTTPClient{Client: http.Client{Transport: t}}
}

// newEcho returns a server that answers what it was asked for.
func newEcho() engines.Server {
	return tare.Wrap(&http.Server{Handler: http.HandlerFunc(engines.Echo)})
}

// netHTTPClient is net/http's client, and fastClient fasthttp's, for pairs with one server.
func netHTTPClient(o engines.ClientOptions) engines.Client {
	t := &http.Transport{MaxIdleConnsPerHost: o.Conns, DialContext: o.DialContext()}
	return &engines.HTTPClient{Client: http.Client{Transport: t}}
}

// newSharing, netHTTPSharing and newFastClientWaiting are clients that wait for one of so many
// connections.
func newSharing(o engines.ClientOptions) engines.Client {
	return &engines.HTTPClient{Client: http.Client{Transport: &tare.Transport{MaxIdleConnsPerHost: o.Conns, MaxConnsPerHost: o.Conns}}}
}

func netHTTPSharing(o engines.ClientOptions) engines.Client {
	return &engines.HTTPClient{Client: http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: o.Conns, MaxConnsPerHost: o.Conns}}}
}

func newFastClientWaiting(o engines.ClientOptions) engines.Client {
	return &fastClient{fasthttp.Client{MaxConnsPerHost: o.Conns, MaxConnWaitTimeout: time.Minute}}
}

type fastClient struct{ fasthttp.Client }

func newFastClient(o engines.ClientOptions) engines.Client {
	c := &fastClient{fasthttp.Client{MaxConnsPerHost: o.Conns}}
	if o.Dial != nil {
		c.Dial = func(string) (net.Conn, error) { return o.Dial() }
	}
	return c
}

func (c *fastClient) Get(url string) engines.Ask {
	var buf []byte
	return func() (status int, body []byte, err error) {
		status, buf, err = c.Client.Get(buf, url)
		return status, buf, err
	}
}

func (c *fastClient) Again(url string) engines.Ask { return c.Get(url) }

func (c *fastClient) Close() { c.CloseIdleConnections() }

// pairs are the clients, each with the same server: what differs is the client's.
func pairs(b *testing.B, measure func(*testing.B, func(engines.ClientOptions) engines.Client)) {
	for _, pair := range []struct {
		name   string
		client func(engines.ClientOptions) engines.Client
	}{{"tare", newClient}, {"nethttp", netHTTPClient}, {"fasthttp", newFastClient}} {
		b.Run(pair.name, func(b *testing.B) { measure(b, pair.client) })
	}
}

func BenchmarkPairGetEndToEnd10TCP(b *testing.B) {
	pairs(b, func(b *testing.B, c func(engines.ClientOptions) engines.Client) {
		engines.EndToEndTCP(b, 10, c, newEcho)
	})
}

func BenchmarkPairGetEndToEnd100TCP(b *testing.B) {
	pairs(b, func(b *testing.B, c func(engines.ClientOptions) engines.Client) {
		engines.EndToEndTCP(b, 100, c, newEcho)
	})
}

func BenchmarkPairGetEndToEnd10Inmemory(b *testing.B) {
	pairs(b, func(b *testing.B, c func(engines.ClientOptions) engines.Client) {
		engines.EndToEndInmemory(b, 10, c, newEcho)
	})
}
