package tare

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/internal/engine"
)

// closeHook notices Shutdown and Close of the wrapped http.Server, called inner here.
//
// An http.Server that ends closes its listeners. Close also closes its connections, and Shutdown
// waits for those on which a request has begun, until its context ends. A listener alone would not
// suffice: Shutdown waits for its Serve without regard to the context. Inner therefore serves the
// hook as a listener with one connection, a pipe. Its client sends a malformed request and does not
// read the response. If inner closes the connection, the hook closes the engine. The client leaves
// when the engine has shut down.
type closeHook struct {
	engine     *engine.Server
	client     net.Conn
	conns      chan net.Conn // holds the connection until inner accepts it; closed by Close
	closeOnce  sync.Once
	isDetached atomic.Bool // the engine ignores what happens to inner
}

// attachCloseHook makes inner serve a hook. If inner is closed or cannot serve, it returns
// net/http's error.
func attachCloseHook(inner *http.Server, e *engine.Server, isTLS bool) (*closeHook, error) {
	client, conn := net.Pipe()
	h := &closeHook{engine: e, client: client, conns: make(chan net.Conn, 1)}
	h.conns <- hookConn{conn, h}
	if isTLS {
		// sets TLSNextProto, and fails because no file has such a name
		_ = inner.ServeTLS(h, "\x00", "\x00")
	}
	protocols := inner.Protocols
	if protocols != nil && !protocols.HTTP1() {
		served := *protocols
		served.SetHTTP1(true)
		inner.Protocols = &served
	}
	ended := make(chan error, 1)
	go func() {
		ended <- inner.Serve(h)
		if _, ok := <-h.conns; ok { // was not accepted
			_ = conn.Close()
		}
	}()
	_, err := io.WriteString(client, "malformed request\r\n\r\n")
	if err == nil {
		_, err = client.Read(make([]byte, 1)) // returns when inner waits for the client
	}
	if err != nil { // inner has ended, or cannot serve; it may still read Protocols
		h.detach()
		return nil, <-ended
	}
	inner.Protocols = protocols
	return h, nil
}

// release lets inner's Shutdown return.
func (h *closeHook) release() { _ = h.client.Close() }

// detach ends inner's Serve of the hook, and does not affect the engine.
func (h *closeHook) detach() {
	h.isDetached.Store(true)
	_ = h.Close()
	h.release()
}

// Accept implements net.Listener. Inner's Shutdown and Close wait for its last call, and so for the
// engine's listeners.
func (h *closeHook) Accept() (net.Conn, error) {
	if c, ok := <-h.conns; ok {
		return c, nil
	}
	if !h.isDetached.Load() {
		h.engine.WaitListeners()
	}
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (h *closeHook) Close() error {
	h.closeOnce.Do(func() {
		if !h.isDetached.Load() {
			_ = h.engine.StopListening() // the Server's Shutdown returns this error
		}
		close(h.conns)
	})
	return nil
}

// Addr implements net.Listener.
func (h *closeHook) Addr() net.Addr { return h.client.LocalAddr() }

// hookConn is the connection of a closeHook. It has no deadlines.
type hookConn struct {
	net.Conn
	hook *closeHook
}

// Close implements net.Conn.
func (c hookConn) Close() error {
	if !c.hook.isDetached.Load() {
		_ = c.hook.engine.Close()
	}
	return c.Conn.Close()
}

func (hookConn) SetDeadline(time.Time) error      { return nil }
func (hookConn) SetReadDeadline(time.Time) error  { return nil }
func (hookConn) SetWriteDeadline(time.Time) error { return nil }

// hideCloseHooks hides close hooks from the functions of inner that net/http calls. It is not
// undone, because net/http calls ConnState even after a hook is detached.
func hideCloseHooks(inner *http.Server) {
	if base := inner.BaseContext; base != nil {
		inner.BaseContext = func(l net.Listener) context.Context {
			if _, ours := l.(*closeHook); ours {
				return context.Background()
			}
			return base(l)
		}
	}
	if conn := inner.ConnContext; conn != nil {
		inner.ConnContext = func(ctx context.Context, nc net.Conn) context.Context {
			if _, ours := nc.(hookConn); ours {
				return ctx
			}
			return conn(ctx, nc)
		}
	}
	if state := inner.ConnState; state != nil {
		inner.ConnState = func(nc net.Conn, s http.ConnState) {
			if _, ours := nc.(hookConn); !ours {
				state(nc, s)
			}
		}
	}
}
