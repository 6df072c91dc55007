package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/url"
	"runtime/debug"
	"strconv"

	"github.com/tarehq/tare/front/internal/errorlog"
	"github.com/tarehq/tare/front/internal/fetch"
)

// For a cache a bound handler is an upstream: an http.Server calls it on a connection in memory,
// because its response may be stored after its client has gone.

// boundUpstream sends a request to a bound handler. It does not refer to the exchange.
type boundUpstream struct {
	handler  http.Handler
	received http.Request // the client's: the handler sees its connection
	errorLog *errorlog.Log
}

// errBoundPanic stands for a response that never began, as if the upstream had closed its connection.
var errBoundPanic = errors.New("the bound handler has panicked")

// Do implements sender. It returns once the head of the response is ready.
func (f *boundUpstream) Do(ctx context.Context, q *fetch.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(ctx)
	r := f.received.WithContext(ctx)
	if err := receiveBound(r, q); err != nil {
		cancel()
		return nil, err
	}
	near, far := net.Pipe()
	ended := make(chan struct{})
	server := &http.Server{
		Handler:  http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { f.serve(w, r) }),
		ErrorLog: log.New(io.Discard, "", 0),
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateClosed {
				close(ended)
			}
		},
	}
	conns := make(boundListener, 1)
	conns <- far
	close(conns)
	_ = server.Serve(conns) // it serves in another goroutine
	end := func() {
		cancel()
		near.Close()
		<-ended
	}
	context.AfterFunc(ctx, func() { near.Close() })
	resp, err := receiveResponse(near, q.Method)
	if err != nil {
		end()
		return nil, errBoundPanic
	}
	resp.Body = &boundBody{resp.Body, end}
	return resp, nil
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

// serve calls the handler. As in net/http, http.ErrAbortHandler is not logged.
func (f *boundUpstream) serve(w http.ResponseWriter, r *http.Request) {
	defer func() {
		why := recover()
		if why == nil {
			return
		}
		if why != http.ErrAbortHandler { //nolint:errorlint // servers compare it, too
			f.errorLog.Logf(errorlog.LevelError, "panic in a bound handler: %v\n%s", why, debug.Stack())
		}
		panic(http.ErrAbortHandler)
	}()
	// without the methods of a connection
	f.handler.ServeHTTP(struct {
		http.ResponseWriter
		http.Flusher
	}{w, w.(http.Flusher)}, r)
}

// receiveResponse receives the response to a request with a method. The request itself does not pass
// over the connection, and interim responses are dropped.
func receiveResponse(c net.Conn, method string) (*http.Response, error) {
	sent := &http.Request{Method: http.MethodGet}
	if method == http.MethodHead {
		sent.Method = method
	}
	if _, err := io.WriteString(c, sent.Method+" / HTTP/1.1\r\nHost: bound\r\nConnection: close\r\n\r\n"); err != nil {
		return nil, err
	}
	from := bufio.NewReader(c)
	for {
		resp, err := http.ReadResponse(from, sent)
		if err != nil || resp.StatusCode >= http.StatusOK {
			return resp, err
		}
	}
}

type boundListener chan net.Conn

// Accept implements net.Listener.
func (l boundListener) Accept() (net.Conn, error) {
	if c, ok := <-l; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (boundListener) Close() error { return nil }

// Addr implements net.Listener.
func (boundListener) Addr() net.Addr { return &net.UnixAddr{} }

type boundBody struct {
	io.ReadCloser
	end func()
}

// HasInput implements connection.InputReporter: any Read may wait for the handler.
func (*boundBody) HasInput() bool { return false }

// Close ends the handler's request, and waits until it has returned.
func (b *boundBody) Close() error {
	b.end()
	return b.ReadCloser.Close()
}
