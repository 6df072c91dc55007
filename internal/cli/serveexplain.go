package cli

import (
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
	"unicode"

	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/nginxconf"
	"github.com/tarehq/tare/front/server"
)

// explainedClient is the address of the client whose request is explained.
const explainedClient = "127.0.0.1:50000"

// runExplain prints how a request would be served.
func (p *frontPlan) runExplain(env Env) error {
	config, err := p.source().Read(nil)
	if err != nil {
		return p.reportError(env.Stderr, &server.ConfigError{Err: err})
	}
	r, err := p.explainedRequest(config.Process.Listeners)
	if err != nil {
		return usageError(fmt.Errorf("--explain %q: %w", p.explain, err))
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
		fmt.Fprintf(table, "%s\t%s\n", f.Phase, printable(text))
	}
	return table.Flush()
}

// printable returns a text with escapes for control characters: a URL, which may be an attacker's,
// must not change the table or the terminal.
func printable(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		}
	}
	return b.String()
}

// explainedRequest returns the request of the flags, as a server receives it.
func (p *frontPlan) explainedRequest(listeners []nginxconf.Listener) (*http.Request, error) {
	target, err := url.Parse(p.explain)
	switch {
	case err != nil:
		return nil, errors.Unwrap(err)
	case target.Scheme != "http" && target.Scheme != "https", target.Host == "", target.User != nil:
		return nil, errors.New("want http://HOST/PATH or https://HOST/PATH")
	}
	if target.Path == "" {
		target.Path = "/" // as clients send it
	}
	header, err := parseHeaders(p.headers)
	if err != nil {
		return nil, fmt.Errorf("--header: %w", err)
	}
	r, err := http.NewRequest(p.method, target.String(), nil)
	if err != nil {
		return nil, err
	}
	local, err := addressOf(listeners, target)
	if err != nil {
		return nil, err
	}
	r = r.WithContext(context.WithValue(context.Background(), http.LocalAddrContextKey, local))
	r.Header, r.RemoteAddr, r.RequestURI = header, explainedClient, target.RequestURI()
	if host := header.Get("Host"); host != "" {
		r.Host = host
		header.Del("Host")
	}
	if target.Scheme == "https" {
		r.TLS = &tls.ConnectionState{Version: tls.VersionTLS13, HandshakeComplete: true, ServerName: target.Hostname()}
	}
	r.URL.Scheme, r.URL.Host = "", ""
	return r, nil
}

// addressOf returns the address at which a server receives requests for a URL: that of the URL's
// host if it is an address, or the first one with its port and scheme.
func addressOf(listeners []nginxconf.Listener, target *url.URL) (net.Addr, error) {
	port := target.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[target.Scheme]
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("invalid port %q", port)
	}
	var found net.Addr
	var served []string
	wanted, _ := netip.ParseAddr(target.Hostname())
	for i := range listeners {
		l := &listeners[i]
		served = append(served, l.Addr)
		text := strings.Replace(l.Addr, "*:", "0.0.0.0:", 1)
		addr, err := netip.ParseAddrPort(text)
		if err != nil || uint64(addr.Port()) != n || l.TLS != (target.Scheme == "https") {
			continue
		}
		ip := addr.Addr().Unmap()
		isAny := ip.IsUnspecified()
		if isAny && wanted.IsValid() && (wanted.Is4() == ip.Is4() || !l.IPv6Only) {
			ip = wanted
		} else if isAny {
			ip = netip.MustParseAddr(map[bool]string{true: "127.0.0.1", false: "::1"}[ip.Is4()])
		}
		if local := net.TCPAddrFromAddrPort(netip.AddrPortFrom(ip, uint16(n))); ip == wanted {
			return local, nil
		} else if found == nil {
			found = local
		}
	}
	if found == nil {
		return nil, fmt.Errorf("no server listens for %s on port %s (the file's addresses are %s)", target.Scheme, port,
			strings.Join(served, ", "))
	}
	return found, nil
}
