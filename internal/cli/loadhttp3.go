//go:build linux && http3

package cli

import (
	"cmp"
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
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"

	"github.com/tarehq/tare/internal/lab/proc"
	"github.com/tarehq/tare/load"
	"github.com/tarehq/tare/load/hist"
)

// The generator's loop polls sockets, and a QUIC connection has none of its own. So --http3 puts a
// gateway between them: a server for HTTP/2 on a unix socket, in this process. It has a QUIC
// connection for each connection of the generator, and forwards each request to it.

// http3Gateway forwards requests by HTTP/3. It is also the listener of its server.
type http3Gateway struct {
	net.Listener
	authority string
	origin    string // scheme and authority of the user's URL, as they are there
	tls       *tls.Config

	mu      sync.Mutex
	failure string          // the first of the current run
	connect *hist.Histogram // of its QUIC connections, with the TLS handshake
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
	return &gatewayConn{c, &http3.Transport{TLSClientConfig: g.tls, DisableCompression: true, Dial: g.dial}}, nil
}

const redialEvery = 50 * time.Millisecond // pause after a failed dial

func (g *http3Gateway) dial(ctx context.Context, to string, secure *tls.Config, q *quic.Config) (*quic.Conn, error) {
	start := time.Now()
	c, err := quic.DialAddrEarly(ctx, to, secure, q)
	if err != nil {
		select { // a server that refuses all connections is not flooded
		case <-time.After(redialEvery):
		case <-ctx.Done():
		}
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.connect.Record(time.Since(start))
	return c, nil
}

// useHTTP3 starts a gateway, through which runPlan loads the server. The caller calls end after the
// last run.
func (f *loadFlags) useHTTP3() (end func(), err error) {
	u, err := url.Parse(f.plan.URL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("load: %w", err)
	case u.Scheme != "https":
		return nil, errors.New("load: --http3 requires a URL https://host:port/path")
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
	g := &http3Gateway{Listener: l, authority: u.Host, origin: originOf(f.plan.URL), tls: config, connect: hist.New()}
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	s := &http.Server{Handler: g, Protocols: protocols, ConnContext: withTransport,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: max(1, f.plan.Pipeline)}}
	go func() { _ = s.Serve(g) }()
	f.runPlan = g.run
	return func() {
		s.Close()
		os.RemoveAll(dir)
	}, nil
}

// originOf returns the scheme and the authority of a URL, as they are.
func originOf(target string) string {
	scheme, rest, _ := strings.Cut(target, "://")
	return scheme + "://" + rest[:strings.IndexAny(rest+"/", "/?#")]
}

// pathOf returns the path and the query of a URL of the server, as they are: they may have template
// expressions. It returns a path unchanged.
func (g *http3Gateway) pathOf(target string) (string, error) {
	if strings.HasPrefix(target, "/") || !strings.Contains(target, "://") {
		return target, nil
	}
	origin := originOf(target)
	if !strings.EqualFold(origin, g.origin) {
		return "", &load.PlanError{Reason: fmt.Sprintf("%q and %q are different servers: want one for all requests",
			origin, g.origin)}
	}
	if path := target[len(origin):]; strings.HasPrefix(path, "/") {
		return path, nil
	}
	return "/" + target[len(origin):], nil
}

// run runs a Plan through the gateway. The Result has the Plan's URL, the connect times of QUIC,
// and the CPU time of this process, whose goroutines speak QUIC.
func (g *http3Gateway) run(ctx context.Context, p load.Plan) (*load.Result, error) {
	g.mu.Lock()
	g.failure, g.connect = "", hist.New()
	g.mu.Unlock()
	url, caller := p.URL, *cmp.Or(p.Trace, &load.Trace{})
	path, err := g.pathOf(url)
	p.List = slices.Clone(p.List)
	for i := range p.List {
		var listErr error
		p.List[i].URL, listErr = g.pathOf(p.List[i].URL)
		err = cmp.Or(err, listErr)
	}
	if err != nil {
		return nil, err
	}
	p.URL = "http+unix://" + strings.ReplaceAll(g.Addr().String(), ":", "%3A") + ":" + path
	p.Version, p.TLS = load.HTTP2, nil
	isHost := func(field string) bool { return strings.HasPrefix(strings.ToLower(field), "host:") }
	if !slices.ContainsFunc(p.Header, isHost) {
		p.Header = append(slices.Clone(p.Header), "Host: "+g.authority)
	}
	var userBefore, sysBefore, user, sys time.Duration
	trace := caller
	trace.Started = func() {
		userBefore, sysBefore = proc.Self()
		if caller.Started != nil {
			caller.Started()
		}
	}
	trace.Ended = func() {
		user, sys = proc.Self()
		if caller.Ended != nil {
			caller.Ended()
		}
	}
	trace.Progress = func(now load.Progress) {
		g.explain(&now.Errors)
		if caller.Progress != nil {
			caller.Progress(now)
		}
	}
	p.Trace = &trace
	r, err := load.Run(ctx, p)
	if r == nil {
		return nil, err
	}
	g.explain(&r.Errors)
	r.URL = url
	own := &r.Generator
	own.UserSeconds, own.SysSeconds = (user - userBefore).Seconds(), (sys - sysBefore).Seconds()
	if r.Seconds > 0 {
		own.Busy = (own.UserSeconds + own.SysSeconds) / r.Seconds / float64(runtime.GOMAXPROCS(0))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	r.Connect, g.connect = g.connect, hist.New()
	if r.Connect.Count() == 0 && g.failure != "" && ctx.Err() == nil {
		err = &load.ConnectError{URL: url, First: g.failure}
	}
	return r, err
}

// explain replaces the error about a stream that the gateway reset by the reason.
func (g *http3Gateway) explain(e *load.Errors) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failure != "" && strings.HasPrefix(e.First, "read: the server reset the stream") {
		e.First = g.failure
	}
}

// fail resets the generator's stream after an error, unless the generator has ended it.
func (g *http3Gateway) fail(r *http.Request, err error) {
	if r.Context().Err() == nil {
		g.mu.Lock()
		g.failure = cmp.Or(g.failure, "HTTP/3: "+err.Error())
		g.mu.Unlock()
	}
	panic(http.ErrAbortHandler)
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
		g.fail(r, err)
	}
	defer resp.Body.Close()
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	var to io.Writer = w
	if resp.ContentLength < 0 { // perhaps a stream of events
		to = flushing{w}
		_, _ = to.Write(nil) // the head; a failure repeats below
	}
	if _, err := io.Copy(to, resp.Body); err != nil {
		g.fail(r, err)
	}
	for name, values := range resp.Trailer {
		w.Header()[http.TrailerPrefix+name] = values
	}
}

// flushing sends each piece of a response at once.
type flushing struct{ http.ResponseWriter }

// Write implements io.Writer.
func (w flushing) Write(b []byte) (int, error) {
	n, err := w.ResponseWriter.Write(b)
	return n, cmp.Or(err, http.NewResponseController(w.ResponseWriter).Flush())
}
