package tare

import (
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tarehq/tare/internal/engine"
)

// closeHook notices Shutdown and Close of the wrapped http.Server, called inner here. It then shuts
// down or closes the engine, and makes inner's Shutdown wait for the engine's requests.
//
// An http.Server notifies only its listeners and connections when it is closed, and its Shutdown
// waits only for its own connections. So inner serves a listener with a single connection, on which
// a malformed request arrives. The connection's Write blocks net/http's response to it until the
// engine has ended, and so the connection counts as active. The states of the hook are:
//
//	attaching   inner.Serve runs; net/http reads the malformed request
//	attached    net/http's Write of the response blocks
//	released    the engine has ended: Write returns, and so does inner's Shutdown
//	closed      net/http closes the connection while attached: Close was called
//	detached    nothing is served any more; the engine ignores what happens to inner
//
// Without the hook, Close of the wrapped server would leave the engine's connections open, and its
// Shutdown would not wait for them.
type closeHook struct {
	engine *engine.Server

	requestRead    chan struct{} // closed when net/http begins to read a request
	responseBegun  chan struct{} // closed when net/http begins to write its response
	connClosed     chan struct{} // closed when net/http closes the connection
	released       chan struct{} // closed when the engine has ended
	listenerClosed chan struct{} // closed when net/http closes the listener

	readOnce, respondOnce, closeOnce, releaseOnce, unbindOnce sync.Once

	isDetached atomic.Bool // the engine ignores what happens to inner

	hasAccepted bool // used by the goroutine of Serve only
}

func newCloseHook(e *engine.Server) *closeHook {
	return &closeHook{
		engine: e, requestRead: make(chan struct{}), responseBegun: make(chan struct{}),
		connClosed: make(chan struct{}), released: make(chan struct{}), listenerClosed: make(chan struct{}),
	}
}

// attach makes inner serve the hook. If inner is closed, attach fails with net/http's error.
func (h *closeHook) attach(inner *http.Server, isTLS bool) error {
	return withoutSettings(inner, isTLS, func() error {
		ended := make(chan error, 1)
		go func() { ended <- inner.Serve(hookListener{h}) }()
		return h.awaitAttached(ended)
	})
}

// awaitAttached waits until the hook is attached, or until inner's Serve has ended.
func (h *closeHook) awaitAttached(ended <-chan error) error {
	select {
	case <-h.requestRead: // net/http has read inner's settings
	case err := <-ended:
		if h.hasAccepted {
			<-h.requestRead
		}
		h.release() // inner's Shutdown may wait for the connection, and that in Write
		return err
	}
	select {
	case <-h.responseBegun:
		return nil
	case <-h.connClosed:
		return http.ErrServerClosed
	}
}

// hideFromConnState hides hooks from inner's ConnState. It is not undone, because net/http calls
// ConnState even after a hook is detached.
func hideFromConnState(inner *http.Server) {
	hook := inner.ConnState
	if hook == nil {
		return
	}
	inner.ConnState = func(nc net.Conn, state http.ConnState) {
		if _, ours := nc.(hookConn); !ours {
			hook(nc, state)
		}
	}
}

// isClosed reports whether Shutdown or Close of inner has been called.
func isClosed(inner *http.Server, isTLS bool) bool {
	err := withoutSettings(inner, isTLS, func() error { return inner.Serve(endedListener{}) })
	return errors.Is(err, http.ErrServerClosed)
}

// withoutSettings calls f, which makes inner serve a hook. Meanwhile inner lacks some settings:
// those whose functions would see the hook, those that net/http would change, and those that would
// keep net/http from reading a request.
//
// In its first Serve, net/http sets TLSNextProto if TLSConfig is nil or offers HTTP/2. ServeTLS
// always sets it. With isTLS, f therefore finds no TLSConfig.
func withoutSettings(inner *http.Server, isTLS bool, f func() error) error {
	base, conn, config, protocols := inner.BaseContext, inner.ConnContext, inner.TLSConfig, inner.Protocols
	inner.BaseContext, inner.ConnContext, inner.TLSConfig = nil, nil, nil
	if !isTLS {
		inner.TLSConfig = config.Clone()
	}
	if protocols != nil {
		served := *protocols
		served.SetHTTP1(true)
		inner.Protocols = &served
	}
	defer func() {
		inner.BaseContext, inner.ConnContext, inner.TLSConfig, inner.Protocols = base, conn, config, protocols
	}()
	return f()
}

// release lets inner's Shutdown return.
func (h *closeHook) release() { h.releaseOnce.Do(func() { close(h.released) }) }

// detach ends inner's Serve of the hook, and does not affect the engine.
func (h *closeHook) detach() {
	h.isDetached.Store(true)
	h.unbindOnce.Do(func() { close(h.listenerClosed) })
	h.release()
}

// hookListener is the listener that inner serves.
type hookListener struct{ hook *closeHook }

// Accept implements net.Listener.
func (l hookListener) Accept() (net.Conn, error) {
	select {
	case <-l.hook.listenerClosed:
		return nil, net.ErrClosed
	default:
	}
	if !l.hook.hasAccepted {
		l.hook.hasAccepted = true
		return hookConn(l), nil
	}
	<-l.hook.listenerClosed
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (l hookListener) Close() error {
	l.hook.unbindOnce.Do(func() {
		close(l.hook.listenerClosed)
		if !l.hook.isDetached.Load() {
			_ = l.hook.engine.StopListening() // the Server's Shutdown returns this error
		}
	})
	return nil
}

// Addr implements net.Listener.
func (hookListener) Addr() net.Addr { return hookAddr{} }

// endedListener is a closed listener.
type endedListener struct{}

// Accept implements net.Listener.
func (endedListener) Accept() (net.Conn, error) { return nil, net.ErrClosed }

// Close implements net.Listener.
func (endedListener) Close() error { return nil }

// Addr implements net.Listener.
func (endedListener) Addr() net.Addr { return hookAddr{} }

// hookConn is the only connection that hookListener accepts.
type hookConn struct{ hook *closeHook }

func (c hookConn) Read(p []byte) (n int, err error) {
	err = io.EOF
	c.hook.readOnce.Do(func() {
		close(c.hook.requestRead)
		n, err = copy(p, "malformed\r\n\r\n"), nil
	})
	return n, err
}

func (c hookConn) Write(p []byte) (int, error) {
	c.hook.respondOnce.Do(func() { close(c.hook.responseBegun) })
	select {
	case <-c.hook.released:
	case <-c.hook.connClosed:
	}
	return 0, net.ErrClosed
}

// Close implements net.Conn.
func (c hookConn) Close() error {
	c.hook.closeOnce.Do(func() {
		close(c.hook.connClosed)
		if !c.hook.isDetached.Load() {
			_ = c.hook.engine.Close()
		}
	})
	return nil
}

func (hookConn) LocalAddr() net.Addr              { return hookAddr{} }
func (hookConn) RemoteAddr() net.Addr             { return hookAddr{} }
func (hookConn) SetDeadline(time.Time) error      { return nil }
func (hookConn) SetReadDeadline(time.Time) error  { return nil }
func (hookConn) SetWriteDeadline(time.Time) error { return nil }

type hookAddr struct{}

// Network implements net.Addr.
func (hookAddr) Network() string { return "tare" }
func (hookAddr) String() string  { return "tare" }
