//go:build linux && http3

package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quic-go/quic-go/http3"

	"github.com/tarehq/tare/load"
)

// The generator's loop polls sockets, and a QUIC connection has none of its own. So --http3 puts a
// gateway between them: a server for HTTP/2 on a unix socket, in this process. It has a QUIC
// connection for each connection of the generator, and forwards each request to it.

// http3Gateway forwards requests by HTTP/3. It is also the listener of its server.
type http3Gateway struct {
	net.Listener
	authority string
	tls       *tls.Config
}

// gatewayConn is a connection of the generator, with a QUIC connection that ends with it. The first
// request opens that.
type gatewayConn struct {
	net.Conn
	transport *http3.Transport
}

// Close implements net.Conn.
func (c *gatewayConn) Close() error {
	c.transport.Close()
	return c.Conn.Close()
}

// transportKey is the context key of a connection's transport.
type transportKey struct{}

func withTransport(ctx context.Context, c net.Conn) context.Context {
	if own, ok := c.(*gatewayConn); ok {
		return context.WithValue(ctx, transportKey{}, own.transport)
	}
	return ctx
}

// Accept implements net.Listener.
func (g *http3Gateway) Accept() (net.Conn, error) {
	c, err := g.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &gatewayConn{c, &http3.Transport{TLSClientConfig: g.tls, DisableCompression: true}}, nil
}

// useHTTP3 starts a gateway, and makes the Plan load the server through it. The caller calls end
// after the run.
func (f *loadFlags) useHTTP3() (end func(), err error) {
	u, err := url.Parse(f.plan.URL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("load: %w", err)
	case u.Scheme != "https":
		return nil, errors.New("load: --http3 requires a URL https://host:port/path")
	case len(f.plan.Resolve) > 0 || len(f.plan.Sources) > 0:
		return nil, errors.New("load: --http3 and --resolve or --source are mutually exclusive")
	}
	config := new(tls.Config)
	if f.plan.TLS != nil {
		config = f.plan.TLS.Clone()
	}
	dir, err := os.MkdirTemp("", "tare-http3-")
	if err != nil {
		return nil, err
	}
	l, err := net.Listen("unix", filepath.Join(dir, "socket"))
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	g := &http3Gateway{l, u.Host, config}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	s := &http.Server{Handler: g, Protocols: protocols, ConnContext: withTransport,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: max(1, f.plan.Pipeline)}}
	go func() { _ = s.Serve(g) }()
	f.plan.URL = "http+unix://" + strings.ReplaceAll(l.Addr().String(), ":", "%3A") + ":" + u.RequestURI()
	f.plan.Version, f.plan.TLS = load.HTTP2, nil
	isHost := func(field string) bool { return strings.HasPrefix(strings.ToLower(field), "host:") }
	if !slices.ContainsFunc(f.plan.Header, isHost) {
		f.plan.Header = append(slices.Clone(f.plan.Header), "Host: "+u.Host)
	}
	return func() {
		s.Close()
		os.RemoveAll(dir)
	}, nil
}

// ServeHTTP implements http.Handler. If the request fails, the generator's is reset.
func (g *http3Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t, ok := r.Context().Value(transportKey{}).(*http3.Transport)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	out := r.Clone(r.Context())
	out.RequestURI, out.URL.Scheme, out.URL.Host = "", "https", g.authority
	if r.ContentLength == 0 {
		out.Body = nil
	}
	resp, err := t.RoundTrip(out)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	defer resp.Body.Close()
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	if _, err := io.Copy(w, resp.Body); err != nil {
		panic(http.ErrAbortHandler)
	}
}
