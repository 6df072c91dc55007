package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/nginxconf"
	"github.com/tarehq/tare/front/server"
	"github.com/tarehq/tare/internal/printable"
)

const explainedClient = "127.0.0.1:50000" // address of the client whose request is explained

// maxExplainedURL limits the length of a URL. The server's limit for a request's head is 32 KB by
// default, and each rewrite may double a path.
const maxExplainedURL = 128 << 10

func (p *frontPlan) runExplain(env Env) error {
	config, err := p.source().Read(nil)
	if err != nil {
		return p.reportError(env.Stderr, &server.ConfigError{Err: err})
	}
	r, err := p.explainedRequest(config.Process.Listeners)
	if err != nil {
		return usageError(fmt.Errorf("--explain %q: %w", p.flags.explain, err))
	}
	findings, err := front.Explain(config.Front, r)
	if err != nil {
		return p.reportError(env.Stderr, &server.ConfigError{Err: err})
	}
	table := tabwriter.NewWriter(env.Stdout, 0, 0, 2, ' ', 0)
	for _, f := range findings {
		text := f.Text
		if f.Pos != "" {
			text += "  (" + f.Pos + ")"
		}
		fmt.Fprintf(table, "%s\t%s\n", f.Phase, printable.Text(text, ""))
	}
	return table.Flush()
}

// explainedRequest returns the request of the flags, as a server receives it.
func (p *frontPlan) explainedRequest(listeners []nginxconf.Listener) (*http.Request, error) {
	target, socket, err := explainedURL(p.flags.explain)
	if err != nil {
		return nil, err
	}
	header, err := parseHeaders(p.flags.headers)
	if err != nil {
		return nil, fmt.Errorf("--header: %w", err)
	}
	r, err := http.NewRequest(p.flags.method, target.String(), nil)
	if err != nil {
		return nil, err
	}
	local, err := addressOf(listeners, target, socket)
	if err != nil {
		return nil, err
	}
	r = r.WithContext(context.WithValue(context.Background(), http.LocalAddrContextKey, local))
	r.Header, r.RemoteAddr, r.RequestURI = header, explainedClient, target.RequestURI()
	if socket != "" {
		r.RemoteAddr = "@"
	}
	if host := header.Get("Host"); host != "" {
		r.Host = host
		header.Del("Host")
	}
	if target.Scheme == "https" {
		r.TLS = &tls.ConnectionState{Version: tls.VersionTLS13, HandshakeComplete: true}
		if _, err := netip.ParseAddr(target.Hostname()); err != nil { // as for clients, addresses are no names
			r.TLS.ServerName = target.Hostname()
		}
	}
	if local.Network() == "udp" {
		r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/3.0", 3, 0
	}
	r.URL.Scheme, r.URL.Host = "", ""
	return r, nil
}

// explainedURL parses the URL of a request. The path of a unix socket ends at the next colon.
func explainedURL(text string) (target *url.URL, socket string, err error) {
	const want = "want http://HOST/PATH, https://HOST/PATH, or over a unix socket http+unix:///SOCKET:/PATH"
	if len(text) > maxExplainedURL {
		return nil, "", fmt.Errorf("more than %d bytes", maxExplainedURL)
	}
	if scheme, rest, ok := strings.Cut(text, "+unix://"); ok {
		var path string
		if socket, path, _ = strings.Cut(rest, ":"); !strings.HasPrefix(socket, "/") {
			return nil, "", errors.New(want)
		}
		text = scheme + "://localhost" + path
	}
	target, err = url.Parse(text)
	switch {
	case err != nil:
		return nil, "", errors.Unwrap(err)
	case target.Scheme != "http" && target.Scheme != "https", target.Hostname() == "", target.User != nil:
		return nil, "", errors.New(want)
	}
	if target.Path == "" {
		target.Path = "/" // as clients send it
	}
	return target, socket, nil
}

// addressOf returns the address at which a server receives requests for a URL: that of the URL's
// host if it is an address, or the first one with its port and scheme. Then those are considered
// where plain HTTP arrives at a TLS port, and those of HTTP/3.
func addressOf(listeners []nginxconf.Listener, target *url.URL, socket string) (net.Addr, error) {
	if socket != "" {
		return socketOf(listeners, target, socket)
	}
	port := cmp.Or(target.Port(), map[string]string{"http": "80", "https": "443"}[target.Scheme])
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("invalid port %q", port)
	}
	wanted, _ := netip.ParseAddr(target.Hostname())
	usesTLS := target.Scheme == "https"
	for _, kind := range []struct{ isTLS, isQUIC bool }{{isTLS: usesTLS}, {isTLS: true, isQUIC: usesTLS}} {
		var found netip.AddrPort
		for i := range listeners {
			l := &listeners[i]
			text, overUDP := strings.CutPrefix(l.Addr, "quic:")
			addr, err := netip.ParseAddrPort(strings.Replace(text, "*:", "0.0.0.0:", 1))
			if err != nil || uint64(addr.Port()) != n || l.TLS != kind.isTLS || overUDP != kind.isQUIC {
				continue
			}
			local := netip.AddrPortFrom(receivingAddress(addr.Addr().Unmap(), wanted.Unmap(), l.IPv6Only), addr.Port())
			if local.Addr() == wanted.Unmap() || !found.IsValid() {
				found = local
			}
		}
		switch {
		case found.IsValid() && kind.isQUIC:
			return net.UDPAddrFromAddrPort(found), nil
		case found.IsValid():
			return net.TCPAddrFromAddrPort(found), nil
		}
	}
	return nil, noListener(listeners, target.Scheme, "port "+port)
}

// receivingAddress returns the address at which a socket for ip receives a request to wanted, which
// may be invalid.
func receivingAddress(ip, wanted netip.Addr, ipv6Only bool) netip.Addr {
	switch {
	case !ip.IsUnspecified():
		return ip
	case wanted.IsValid() && (wanted.Is4() == ip.Is4() || ip.Is6() && !ipv6Only):
		return wanted
	case ip.Is4():
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	return netip.IPv6Loopback()
}

func socketOf(listeners []nginxconf.Listener, target *url.URL, socket string) (net.Addr, error) {
	for i := range listeners {
		if l := &listeners[i]; l.Addr == "unix:"+socket && l.TLS == (target.Scheme == "https") {
			return &net.UnixAddr{Name: socket, Net: "unix"}, nil
		}
	}
	return nil, noListener(listeners, target.Scheme, socket)
}

func noListener(listeners []nginxconf.Listener, scheme, at string) error {
	var served []string
	for i := range listeners {
		served = append(served, listeners[i].Addr)
	}
	return fmt.Errorf("no server listens for %s on %s (the file's addresses are %s)", scheme, at,
		strings.Join(served, ", "))
}
