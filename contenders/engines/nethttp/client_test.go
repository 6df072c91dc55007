package nethttp_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/tarehq/tare/contenders/engines"
)

type client struct{ http.Client }

func newClient(o engines.ClientOptions) engines.Client {
	t := &http.Transport{MaxIdleConnsPerHost: o.Conns}
	if o.Dial != nil {
		t.DialContext = func(context.Context, string, string) (net.Conn, error) { return o.Dial() }
	}
	return &client{http.Client{Transport: t}}
}

func (c *client) Get(url string) engines.Ask {
	return func() (int, []byte, error) { return read(c.Client.Get(url)) }
}

func (c *client) Again(url string) engines.Ask {
	req, err := http.NewRequest(http.MethodGet, url, http.NoBody)
	return func() (int, []byte, error) {
		if err != nil {
			return 0, nil, err
		}
		return read(c.Do(req))
	}
}

func read(resp *http.Response, err error) (int, []byte, error) {
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, b, err
}

func (c *client) Close() { c.CloseIdleConnections() }

// newEcho returns a server that answers what it was asked for.
func newEcho() engines.Server {
	return &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, r.RequestURI)
	})}
}

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
