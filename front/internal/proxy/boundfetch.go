package proxy

import (
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"
	"sync/atomic"

	"github.com/tarehq/tare/front/internal/cache"
	"github.com/tarehq/tare/front/internal/core"
	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/fetch"
	"github.com/tarehq/tare/internal/client"
)

// For a cache a bound handler is an upstream: net/http's server calls it over a connection in
// memory, in a goroutine of its own, because its response may be stored after its client has gone.
// The response ends when its length has been written, with its head if it has no body, or with its
// handler.

// boundUpstream sends a request to a bound handler. It does not refer to the exchange.
type boundUpstream struct {
	handler  http.Handler
	client   *client.Client
	received http.Request // the client's: the handler sees its connection
	errorLog *errorlog.Log
	plan     *core.Plan // is not released before the handler has returned
}

// boundConn is the key of a context's connection to a bound handler.
type boundConn struct{}

// newBoundClient returns the client of bound handlers, which connects each request to the net.Conn
// in its context.
func newBoundClient() *client.Client {
	return client.New(&client.Config{Verbatim: true, Settings: &http.Transport{
		DisableCompression: true, Protocols: onlyHTTP1(), MaxIdleConnsPerHost: -1,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return ctx.Value(boundConn{}).(net.Conn), nil
		},
	}})
}

func onlyHTTP1() *http.Protocols {
	p := new(http.Protocols)
	p.SetHTTP1(true)
	return p
}

// Do implements sender. It calls the handler, and returns once the head of its response has
// arrived.
func (f *boundUpstream) Do(ctx context.Context, q *fetch.Request) (*http.Response, error) {
	own, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r := f.received.WithContext(own)
	if err := receiveBound(r, q); err != nil {
		cancel()
		return nil, err
	}
	near, far := net.Pipe()
	b := &boundBody{cancel: cancel, keepHandler: context.AfterFunc(ctx, cancel), done: make(chan struct{})}
	f.plan.Users.Add(1)
	stop := context.AfterFunc(f.plan.Expired, cancel) // also of a handler that is kept
	f.serve(far, r, &b.isAborted, func() {
		cancel()
		stop()
		close(b.done)
		f.plan.Leave()
	})
	// the handler receives r instead; only whether the response has a body depends on the method
	to := &url.URL{Scheme: "http", Host: "handler"}
	get := &http.Request{Method: http.MethodGet, URL: to, Header: make(http.Header)}
	if r.Method == http.MethodHead {
		get.Method = r.Method
	}
	resp, err := f.client.RoundTrip(get.WithContext(context.WithValue(ctx, boundConn{}, near)))
	if err != nil {
		_ = near.Close()
		cancel()
		<-b.done
		return nil, err
	}
	b.ReadCloser, b.isOpen = resp.Body, resp.ContentLength < 0
	b.isOver.Store(resp.Body == http.NoBody)
	resp.Body = b
	return resp, nil
}

// serve makes a server call the handler with r, for the request that arrives on nc. It calls over
// once the handler has returned, and before that sets isAborted if the handler has panicked.
func (f *boundUpstream) serve(nc net.Conn, r *http.Request, isAborted *atomic.Bool, over func()) {
	server := &http.Server{
		Protocols: onlyHTTP1(), ErrorLog: f.plan.Options.Logger(),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { f.call(w, r, isAborted) }),
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateClosed {
				over()
			}
		},
	}
	conns := make(oneConn, 1)
	conns <- nc
	close(conns)
	_ = server.Serve(conns) // returns once the connection has its goroutine
}

// oneConn is a listener with one connection.
type oneConn chan net.Conn

func (c oneConn) Accept() (net.Conn, error) {
	if nc, ok := <-c; ok {
		return nc, nil
	}
	return nil, io.EOF
}

func (oneConn) Close() error { return nil }

func (oneConn) Addr() net.Addr { return new(net.UnixAddr) }

// call calls the handler, which cannot hijack the connection. As in net/http, a panic ends it, and
// http.ErrAbortHandler is not logged.
func (f *boundUpstream) call(w http.ResponseWriter, r *http.Request, isAborted *atomic.Bool) {
	isComplete := false
	defer func() {
		why := recover()
		if why != nil && why != http.ErrAbortHandler { //nolint:errorlint // servers compare it, too
			f.errorLog.Logf(errorlog.LevelError, "panic in a bound handler: %v\n%s", why, debug.Stack())
		}
		if !isComplete {
			isAborted.Store(true)
			panic(http.ErrAbortHandler)
		}
	}()
	f.handler.ServeHTTP(struct {
		http.ResponseWriter
		http.Flusher
	}{w, w.(http.Flusher)}, r)
	isComplete = r.Context().Err() == nil // otherwise the handler may have ended early
}

// receiveBound makes r the request that the handler receives.
func receiveBound(r *http.Request, q *fetch.Request) (err error) {
	r.Method, r.Host, r.RequestURI, r.Header, r.ContentLength = q.Method, q.Host, q.Target, maps.Clone(q.Header), 0
	if q.Body != nil {
		if r.ContentLength = q.Body.Length(); r.ContentLength >= 0 { // handlers expect the field
			r.Header["Content-Length"] = []string{strconv.FormatInt(r.ContentLength, 10)}
		}
	}
	if r.Body, err = q.Body.Open(); err != nil {
		return err
	}
	r.URL, err = url.ParseRequestURI(q.Target)
	return err
}

type boundBody struct {
	io.ReadCloser
	isOver    atomic.Bool // it was read to its end
	isAborted atomic.Bool // the handler has panicked
	isOpen    bool        // only the end of the connection ends it
	cancel    context.CancelFunc
	// keepHandler keeps the end of the upstream request from canceling that of the handler.
	keepHandler func() bool
	done        chan struct{} // closed once the handler has ended
}

// Read implements io.Reader.
func (b *boundBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	switch {
	case !errors.Is(err, io.EOF):
	case b.isOpen && b.isAborted.Load():
		err = io.ErrUnexpectedEOF
	default:
		b.isOver.Store(true)
	}
	return n, err
}

// HasInput implements connection.InputReporter.
func (b *boundBody) HasInput() bool { return cache.HasInput(b.ReadCloser) }

// Close ends the handler's request, and waits until it has returned. A handler that has written the
// whole body may go on.
func (b *boundBody) Close() error {
	err := b.ReadCloser.Close()
	if b.isOver.Load() {
		b.keepHandler()
		return err
	}
	b.cancel()
	<-b.done
	return err
}
