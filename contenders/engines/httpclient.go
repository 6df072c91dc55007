package engines

import (
	"context"
	"io"
	"net"
	"net/http"
)

// HTTPClient is a Client that wraps an http.Client with any Transport.
type HTTPClient struct{ http.Client }

// DialContext returns the dial function of a Transport; nil dials by TCP.
func (o ClientOptions) DialContext() func(ctx context.Context, network, address string) (net.Conn, error) {
	if o.Dial == nil {
		return nil
	}
	return func(context.Context, string, string) (net.Conn, error) { return o.Dial() }
}

// Get implements Client.
func (c *HTTPClient) Get(url string) Exchange {
	return func() (int, []byte, error) { return read(c.Client.Get(url)) }
}

// Again implements Client.
func (c *HTTPClient) Again(url string) Exchange {
	req, err := http.NewRequest(http.MethodGet, url, http.NoBody)
	return func() (int, []byte, error) {
		if err != nil {
			return 0, nil, err
		}
		return read(c.Do(req))
	}
}

// Close implements Client.
func (c *HTTPClient) Close() { c.CloseIdleConnections() }

func read(resp *http.Response, err error) (int, []byte, error) {
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, b, err
}

// Echo responds with the request's path.
func Echo(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	_, _ = io.WriteString(w, r.RequestURI)
}
