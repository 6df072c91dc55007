package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/tarehq/tare/internal/wire/http1"
)

// key identifies a host for the pool. A connection with a key can serve any request with that key.
type key struct {
	proxy            string // the URL of the proxy, or ""
	network, address string // to dial instead of host and port, such as a unix socket; or both ""
	host, port       string // of the server; both "" if a proxy forwards requests to any server
	tls              bool
	onlyHTTP1        bool // HTTP/2 is not offered, for a WebSocket
}

// addr returns the host and port, for dialers and error messages.
func (k *key) addr() string {
	switch {
	case k.address != "":
		return k.address
	case k.host == "" && k.port == "":
		if u, err := url.Parse(k.proxy); err == nil {
			return u.Host // without the password
		}
		return "proxy"
	}
	return net.JoinHostPort(k.host, k.port)
}

// firstAddr returns the address that connections are opened to: the proxy's, if there is one.
func (k *key) firstAddr() string {
	if proxy, err := url.Parse(k.proxy); err == nil && k.proxy != "" {
		return proxyAddr(proxy)
	}
	return k.addr()
}

func (h *http1Codec) route(x *exchange) error {
	switch r := x.request; {
	case r.URL == nil:
		return errors.New("http: nil Request.URL")
	case r.Header == nil:
		return errors.New("http: nil Request.Header")
	case r.Body == nil && r.ContentLength != 0:
		return fmt.Errorf("http: Request.ContentLength=%d with nil Body", r.ContentLength)
	}
	if err := h.setKey(x); err != nil {
		return err
	}
	switch c := x.client; {
	case c.protocols.HTTP1():
	case x.key.tls && !c.protocols.HTTP2():
		return errors.New("tare: https URLs require HTTP/1.1 or HTTP/2, which Protocols excludes")
	case !x.key.tls && !c.protocols.UnencryptedHTTP2():
		return errors.New("tare: http URLs require HTTP/1.1 or unencrypted HTTP/2, which Protocols excludes")
	}
	if p := x.client.protocols; x.key.tls && p.HTTP1() && p.HTTP2() {
		x.key.onlyHTTP1 = isWebSocket(x.request.Header)
	}
	return nil
}

// isWebSocket reports whether a request is to become a WebSocket, for which net/http uses HTTP/1.1.
func isWebSocket(h http.Header) bool {
	return strings.EqualFold(firstValue(h["Upgrade"]), "websocket") && http1.HasToken(h["Connection"], "upgrade")
}

// setKey determines where the request goes.
func (h *http1Codec) setKey(x *exchange) error {
	u, k := x.request.URL, &x.key
	switch u.Scheme {
	case "http":
		k.port = "80"
	case "https":
		k.port, k.tls = "443", true
	default:
		return fmt.Errorf("tare: unsupported protocol scheme %q: use http or https", u.Scheme)
	}
	if call := x.scratch.call; call != nil && call.Addr != "" {
		k.network, k.address, k.port = networkOf(call.Addr), call.Addr, ""
		return nil
	}
	if u.Host == "" {
		return errors.New("tare: the request's URL has no host")
	}
	k.host = u.Host
	// an address in brackets, or a port
	if u.Host[0] == '[' || strings.IndexByte(u.Host, ':') >= 0 {
		k.host = u.Hostname()
		if port := u.Port(); port != "" {
			k.port = port
		}
	}
	k.host = nameToDial(k.host)
	if len(x.client.config.UnixSockets) > 0 {
		host := strings.ToLower(k.host)
		if socket := x.client.config.UnixSockets[host]; socket != "" {
			k.host = host
			return x.setSocketKey(socket)
		}
	}
	if x.client.settings.Proxy != nil {
		return h.setProxyKey(x)
	}
	return nil
}

// setSocketKey selects a unix socket of UnixSockets. A redirect may lead to the socket only from
// the same host. Otherwise a remote server could choose requests to a local one.
func (x *exchange) setSocketKey(socket string) error {
	if from := x.request.Response; from != nil && !sameHost(from.Request, x.request.URL) {
		return fmt.Errorf("tare: redirect to %q rejected: UnixSockets maps that host to a unix socket", x.request.URL.Host)
	}
	if !x.client.protocols.HTTP1() {
		return fmt.Errorf("tare: unix socket of %q requires HTTP/1.1, which Protocols excludes", x.request.URL.Host)
	}
	x.key.network, x.key.address, x.key.port = "unix", socket, ""
	return nil
}

func sameHost(r *http.Request, u *url.URL) bool {
	return r != nil && r.URL != nil && strings.EqualFold(r.URL.Hostname(), u.Hostname())
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// nameToDial converts a host name to ASCII (RFC 5891) as net/http does before it dials: in lower
// case, and unchanged if it is invalid. net/http exports the conversion only through DialContext.
func nameToDial(host string) string {
	if isASCII(host) {
		return host
	}
	name := host
	t := http.Transport{DialContext: func(_ context.Context, _, addr string) (net.Conn, error) {
		name, _, _ = net.SplitHostPort(addr)
		return nil, net.ErrClosed
	}}
	_, _ = t.RoundTrip(&http.Request{URL: &url.URL{Scheme: "http", Host: host}, Header: make(http.Header)})
	return name
}

// sentHost converts a Host field as net/http does: to ASCII, in which it keeps the case, and
// without an IPv6 zone. net/http exports this conversion only through a written request.
func sentHost(host string) (string, error) {
	r := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/"}, Host: host, Header: make(http.Header)}
	var b strings.Builder
	if err := r.Write(&b); err != nil {
		return "", fmt.Errorf("tare: invalid host %q: %w", host, err)
	}
	_, rest, _ := strings.Cut(b.String(), "\r\nHost: ")
	ascii, _, _ := strings.Cut(rest, "\r\n")
	if ascii == "" {
		return "", fmt.Errorf("tare: invalid host %q", host)
	}
	return ascii, nil
}
