// Package fastclient makes fasthttp's client one of package engines.
package fastclient

import (
	"net"

	"github.com/valyala/fasthttp"

	"github.com/tarehq/tare/contenders/engines"
)

// Client is an engines.Client that wraps a fasthttp.Client.
type Client struct{ fasthttp.Client }

// New returns a client.
func New(o engines.ClientOptions) engines.Client {
	c := &Client{fasthttp.Client{MaxConnsPerHost: o.Conns}}
	if o.Dial != nil {
		c.Dial = func(string) (net.Conn, error) { return o.Dial() }
	}
	return c
}

// Get implements engines.Client.
func (c *Client) Get(url string) engines.Exchange {
	var buf []byte
	return func() (status int, body []byte, err error) {
		status, buf, err = c.Client.Get(buf, url)
		return status, buf, err
	}
}

// Again implements engines.Client.
func (c *Client) Again(url string) engines.Exchange {
	req, resp := new(fasthttp.Request), new(fasthttp.Response)
	req.SetRequestURI(url)
	return func() (int, []byte, error) {
		err := c.Do(req, resp)
		return resp.StatusCode(), resp.Body(), err
	}
}

// Close implements engines.Client.
func (c *Client) Close() { c.CloseIdleConnections() }
