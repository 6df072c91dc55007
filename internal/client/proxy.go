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
func (c *Client) dialProxy(ctx context.Context, k *key) (net.Conn, error) {
	proxy, err := url.Parse(k.proxy)
	if err != nil {
		return nil, err
	}
	addr := proxyAddr(proxy)
	nc, err := c.dialToProxy(ctx, proxy, addr)
	if err != nil {
		return nil, &proxyError{addr, &net.OpError{Op: "proxyconnect", Net: "tcp", Err: err}}
	}
	tunnel := c.tunnel
	switch {
	case k.host == "":
		return nc, nil
	case proxy.Scheme == "socks5" || proxy.Scheme == "socks5h":
		tunnel = socksTunnel
	}
	if err := withDeadline(ctx, nc, func() error { return tunnel(ctx, nc, proxy, k) }); err != nil {
		nc.Close()
		return nil, &proxyError{addr, err}
	}
	return nc, nil
}

// proxyAddr returns the host and port of a proxy.
func proxyAddr(proxy *url.URL) string {
	port := map[string]string{"https": "443", "socks5": "1080", "socks5h": "1080"}[proxy.Scheme]
	return net.JoinHostPort(nameToDial(proxy.Hostname()), cmp.Or(proxy.Port(), port, "80"))
}

func (c *Client) dialToProxy(ctx context.Context, proxy *url.URL, addr string) (net.Conn, error) {
	if proxy.Scheme == "https" && c.settings.DialTLSContext != nil {
		return c.settings.DialTLSContext(ctx, "tcp", addr)
	}
	nc, err := c.dialNetwork(ctx, "tcp", addr)
	if err != nil || proxy.Scheme != "https" {
		return nc, err
	}
	config := c.tls.Clone()
	config.NextProtos = []string{protoHTTP1}
	if config.ServerName == "" {
		config.ServerName = proxy.Hostname()
	}
	nc, _, err = c.handshake(ctx, tls.Client(&underTLS{Conn: nc}, config), httptrace.ContextClientTrace(ctx))
	return nc, err
}

// tunnel makes an HTTP proxy connect to a key's server.
func (c *Client) tunnel(ctx context.Context, nc net.Conn, proxy *url.URL, k *key) error {
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
	connect := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: k.addr()}, Host: k.addr(),
		Header: header}
	if err := connect.Write(nc); err != nil {
		return err
	}
	// As in net/http what follows the head is dropped: the server does not speak before the client.
	resp, err := http.ReadResponse(bufio.NewReader(io.LimitReader(nc, int64(c.maxHeadBytes))), connect)
	if err != nil {
		return err
	}
	if c.settings.OnProxyConnectResponse != nil {
		if err := c.settings.OnProxyConnectResponse(ctx, proxy, connect, resp); err != nil {
			return err
		}
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("CONNECT failed with status %q", resp.Status)
	}
	return nil
}
