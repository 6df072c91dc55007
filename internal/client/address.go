package client

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// key identifies a host for the pool. A connection with a key can serve any request with that key.
type key struct {
	proxy      string // the URL of the proxy, or ""
	socket     string // the path of a unix socket, or ""
	host, port string // of the server; both "" if a proxy forwards requests to any server
	tls        bool
}

// addr returns the host and port, for dialers and error messages.
func (k *key) addr() string {
	switch {
	case k.socket != "":
		return k.socket
	case k.host == "" && k.port == "":
		return proxyAddr(k.proxy)
	}
	return net.JoinHostPort(k.host, k.port)
}

// proxyAddr returns the host of a proxy's URL, without the password.
func proxyAddr(proxy string) string {
	u, err := url.Parse(proxy)
	if err != nil {
		return "proxy"
	}
	return u.Host
}

// setKey determines where the request goes.
func (x *exchange) setKey() error {
	r := x.request
	u, k := r.URL, &x.key
	switch u.Scheme {
	case "http":
		k.port = "80"
	case "https":
		k.port, k.tls = "443", true
	default:
		return fmt.Errorf("tare: unsupported protocol scheme %q", u.Scheme)
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
	if !isASCII(k.host) {
		host, err := asciiHost(k.host)
		if err != nil {
			return err
		}
		k.host = host
	}
	if len(x.client.UnixSockets) > 0 {
		host := strings.ToLower(k.host)
		if socket := x.client.UnixSockets[host]; socket != "" {
			k.host = host
			return x.setSocketKey(socket)
		}
	}
	if x.client.Proxy != nil {
		return x.setProxyKey()
	}
	return nil
}

// setSocketKey selects a unix socket of UnixSockets. A redirect may lead to the socket only from
// the same host. Otherwise a remote server could choose requests to a local one.
func (x *exchange) setSocketKey(socket string) error {
	if from := x.request.Response; from != nil && !sameHost(from.Request, x.url) {
		return fmt.Errorf("tare: redirect to %q rejected: UnixSockets maps that host to a unix socket", x.url.Host)
	}
	if !x.client.allowsHTTP1 {
		return fmt.Errorf("tare: unix socket of %q requires HTTP/1.1, which Protocols excludes", x.url.Host)
	}
	x.key.socket, x.key.port = socket, ""
	return nil
}

// sameHost reports whether r was sent to the host of u.
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

// asciiHost converts a host name to ASCII (RFC 5891). It uses net/http, which implements the
// conversion but exports it only through the Host field of a written request.
func asciiHost(host string) (string, error) {
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
