package client

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"time"
)

// proxyConnectTimeout limits the time in which a proxy opens a tunnel, as in net/http.
const proxyConnectTimeout = time.Minute

// proxyError is an error of a proxy, or of the connection to it.
type proxyError struct {
	addr string
	err  error
}

func (e *proxyError) Error() string { return "proxy " + e.addr + ": " + e.err.Error() }

func (e *proxyError) Unwrap() error { return e.err }

// setProxyKey calls Proxy, and if that returns a proxy, sets the key accordingly.
func (h *http1Codec) setProxyKey(x *exchange) error {
	proxy, err := x.client.settings.Proxy(x.request)
	if err != nil || proxy == nil {
		return err
	}
	x.key.proxy = proxy.String()
	switch proxy.Scheme {
	case "", "http", "https": // as in net/http the empty one is http
	case "socks5", "socks5h":
		return nil
	default:
		return fmt.Errorf("tare: unsupported proxy scheme %q: use http, https, socks5 or socks5h", proxy.Scheme)
	}
	if !x.key.tls && x.request.Method != http.MethodConnect {
		x.key.host, x.key.port = "", "" // a connection serves requests for any server
		h.proxyAuth = basicAuth(proxy)
	}
	return nil
}

// basicAuth returns the value of Proxy-Authorization for a proxy's user, or "".
func basicAuth(proxy *url.URL) string {
	if proxy.User == nil {
		return ""
	}
	password, _ := proxy.User.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(proxy.User.Username()+":"+password))
}

// dialProxy opens a connection to a proxy, and a tunnel through the proxy if the key has a server.
func (c *Client) dialProxy(ctx context.Context, k *key) (net.Conn, *tls.ConnectionState, error) {
	proxy, err := url.Parse(k.proxy)
	if err != nil {
		return nil, nil, err
	}
	addr := proxyAddr(proxy)
	nc, state, err := c.dialToProxy(ctx, proxy, addr)
	if err != nil {
		return nil, nil, &proxyError{addr, &net.OpError{Op: "proxyconnect", Net: "tcp", Err: err}}
	}
	if k.host != "" {
		if err := c.openTunnel(ctx, nc, proxy, k); err != nil {
			nc.Close()
			return nil, nil, &proxyError{addr, err}
		}
	}
	return nc, state, nil
}

// openTunnel makes a proxy connect to a key's server. The end of the context closes the connection,
// which may lack deadlines.
func (c *Client) openTunnel(ctx context.Context, nc net.Conn, proxy *url.URL, k *key) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, proxyConnectTimeout, noResponseWithin(proxyConnectTimeout, ""))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	if proxy.Scheme == "socks5" || proxy.Scheme == "socks5h" {
		if err = socksTunnel(nc, proxy, k); err != nil {
			err = &net.OpError{Op: "socks connect", Net: "tcp", Err: err}
		}
	} else {
		err = c.connect(ctx, nc, proxy, k)
	}
	if !stop() {
		return contextCause(ctx)
	}
	return err
}

// proxyAddr returns the host and port of a proxy.
func proxyAddr(proxy *url.URL) string {
	port := map[string]string{"https": "443", "socks5": "1080", "socks5h": "1080"}[proxy.Scheme]
	return net.JoinHostPort(nameToDial(proxy.Hostname()), cmp.Or(proxy.Port(), port, "80"))
}

func (c *Client) dialToProxy(
	ctx context.Context, proxy *url.URL, addr string) (nc net.Conn, state *tls.ConnectionState, err error) {
	hasTLS := proxy.Scheme == "https"
	if hasTLS && c.settings.DialTLSContext != nil {
		nc, err = c.dialWith(ctx, c.settings.DialTLSContext, "tcp", addr)
	} else if nc, err = c.dialWith(ctx, c.settings.DialContext, "tcp", addr); hasTLS && err == nil {
		nc = tls.Client(&underTLS{Conn: nc}, c.tlsFor(nameToDial(proxy.Hostname()), false))
	}
	if err != nil || !hasTLS {
		return nc, nil, err
	}
	return c.handshake(ctx, nc, httptrace.ContextClientTrace(ctx))
}

// connect makes an HTTP proxy connect to a key's server.
func (c *Client) connect(ctx context.Context, nc net.Conn, proxy *url.URL, k *key) error {
	header := c.settings.ProxyConnectHeader
	if c.settings.GetProxyConnectHeader != nil {
		var err error
		if header, err = c.settings.GetProxyConnectHeader(ctx, proxy, k.addr()); err != nil {
			return err
		}
	}
	if header = header.Clone(); header == nil {
		header = make(http.Header)
	}
	if auth := basicAuth(proxy); auth != "" {
		header.Set("Proxy-Authorization", auth)
	}
	r := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: k.addr()}, Host: k.addr(), Header: header}
	if err := r.Write(nc); err != nil {
		return err
	}
	// As in net/http what follows the head is dropped: the server does not speak before the client.
	resp, err := http.ReadResponse(bufio.NewReader(io.LimitReader(nc, int64(c.maxHeadBytes))), r)
	if err != nil {
		return err
	}
	if c.settings.OnProxyConnectResponse != nil {
		if err := c.settings.OnProxyConnectResponse(ctx, proxy, r, resp); err != nil {
			return err
		}
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("CONNECT failed with status %q", resp.Status)
	}
	return nil
}
