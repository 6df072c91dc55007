package client

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// key is what is one host for the pool: a connection for it serves any request for it.
type key struct {
	proxy      string // the URL of the proxy, or ""
	socket     string // the path of a unix socket, or ""
	host, port string // of the server; both "" where a proxy gets requests for all servers
	tls        bool
}

// addr is the host and port, for people and dialers.
func (k *key) addr() string {
	switch {
	case k.socket != "":
		return k.socket
	case k.host == "" && k.port == "":
		return proxyAddr(k.proxy)
	}
	return net.JoinHostPort(k.host, k.port)
}

// proxyAddr is the host of a proxy's URL, without its password.
func proxyAddr(proxy string) string {
	u, err := url.Parse(proxy)
	if err != nil {
		return "proxy"
	}
	return u.Host
}

// locate finds out where the request goes.
func (x *exchange) locate() error {
	r := x.request
	u, k := r.URL, &x.key
	switch u.Scheme {
	case "http":
		k.port = "80"
	case "https":
		k.port, k.tls = "443", true
	case "http+unix":
		return x.locateSocket()
	case "https+unix":
		k.tls = true
		return x.locateSocket()
	default:
		return fmt.Errorf("tare: unsupported protocol scheme %q", u.Scheme)
	}
	if u.Host == "" {
		return errors.New("tare: no host in the request's URL")
	}
	k.host = u.Host
	if u.Host[0] == '[' || strings.IndexByte(u.Host, ':') >= 0 { // an address in brackets, or a port
		k.host = u.Hostname()
		if port := u.Port(); port != "" {
			k.port = port
		}
	}
	if !isASCII(k.host) {
		host, err := asciiHost(k.host)
		if err != nil {
			return err
		}
		k.host = host
	}
	if x.client.Proxy != nil {
		return x.locateProxy()
	}
	return nil
}

// locateSocket reads "http+unix://host/path/of/socket:/path": the socket's path ends at the first
// colon. Without a host that is localhost.
func (x *exchange) locateSocket() error {
	u := x.request.URL
	socket, path, _ := strings.Cut(u.Path, ":")
	if len(socket) < 2 || socket[0] != '/' || path != "" && path[0] != '/' {
		return fmt.Errorf("tare: %q does not name a unix socket: want http+unix://host/path/of/socket:/path", u.Redacted())
	}
	x.key.socket, x.key.host = socket, u.Hostname()
	target := &url.URL{Scheme: "http", Host: u.Host, Path: path, RawQuery: u.RawQuery, ForceQuery: u.ForceQuery}
	if x.key.tls {
		target.Scheme = "https"
	}
	if target.Host == "" {
		target.Host, x.key.host = "localhost", "localhost"
	}
	if _, raw, ok := strings.Cut(u.RawPath, ":"); ok {
		target.RawPath = raw
	}
	x.url = target
	return nil
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// asciiHost spells a host's name as DNS does (RFC 5891). net/http knows how, and tells it in the
// Host field of a request alone.
func asciiHost(host string) (string, error) {
	r := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: "/"}, Host: host, Header: make(http.Header)}
	var b strings.Builder
	if err := r.Write(&b); err != nil {
		return "", fmt.Errorf("tare: the host %q: %w", host, err)
	}
	_, rest, _ := strings.Cut(b.String(), "\r\nHost: ")
	ascii, _, _ := strings.Cut(rest, "\r\n")
	if ascii == "" {
		return "", fmt.Errorf("tare: the host %q is no name", host)
	}
	return ascii, nil
}
