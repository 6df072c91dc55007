package fasthttp_test

import (
	"net"
	"testing"

	"github.com/valyala/fasthttp"

	"github.com/tarehq/tare/contenders/engines"
)

type client struct{ fasthttp.Client }

func newClient(o engines.ClientOptions) engines.Client {
	c := &client{fasthttp.Client{MaxConnsPerHost: o.Conns}}
	if o.Dial != nil {
		c.Dial = func(string) (net.Conn, error) { return o.Dial() }
	}
	return c
}

func (c *client) Get(url string) engines.Exchange {
	var buf []byte
	return func() (status int, body []byte, err error) {
		status, buf, err = c.Client.Get(buf, url)
		return status, buf, err
	}
}

func (c *client) Again(url string) engines.Exchange {
	req, resp := new(fasthttp.Request), new(fasthttp.Response)
	req.SetRequestURI(url)
	return func() (int, []byte, error) {
		err := c.Do(req, resp)
		return resp.StatusCode(), resp.Body(), err
	}
}

func (c *client) Close() { c.CloseIdleConnections() }

// newEcho returns a server whose response body is the request's path.
func newEcho() engines.Server {
	return &server{fasthttp.Server{Handler: func(ctx *fasthttp.RequestCtx) {
		ctx.Success("text/plain", ctx.RequestURI())
	}}}
}

func BenchmarkClientDoFastServer(b *testing.B) { engines.DoFastServer(b, newClient) }

func BenchmarkClientGetEndToEnd1TCP(b *testing.B) { engines.EndToEndTCP(b, 1, newClient, newEcho) }

func BenchmarkClientGetEndToEnd10TCP(b *testing.B) { engines.EndToEndTCP(b, 10, newClient, newEcho) }

func BenchmarkClientGetEndToEnd100TCP(b *testing.B) { engines.EndToEndTCP(b, 100, newClient, newEcho) }

func BenchmarkClientGetEndToEnd1Inmemory(b *testing.B) {
	engines.EndToEndInmemory(b, 1, newClient, newEcho)
}

func BenchmarkClientGetEndToEnd10Inmemory(b *testing.B) {
	engines.EndToEndInmemory(b, 10, newClient, newEcho)
}

func BenchmarkClientGetEndToEnd100Inmemory(b *testing.B) {
	engines.EndToEndInmemory(b, 100, newClient, newEcho)
}

func BenchmarkClientGetEndToEnd1000Inmemory(b *testing.B) {
	engines.EndToEndInmemory(b, 1000, newClient, newEcho)
}
