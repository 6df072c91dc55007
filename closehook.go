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

// A tie makes Shutdown and Close of the wrapped http.Server do the same to the
// engine, and Shutdown of the wrapped one wait for the engine's requests.
//
// An http.Server tells nobody but its listeners and connections that it is closed,
// and waits for its connections only. So it is given a listener with a single
// connection, whose request is malformed: net/http never ends to write its answer,
// and holds the connection for active, until the engine has nothing left to do.
// When net/http closes it before that, Close was called.
type closeHook struct {
	engine *engine.Server

	requestRead    chan struct{} // closed when net/http has begun to read a request
	responseBegun  chan struct{} // closed when it has begun to answer it
	connClosed     chan struct{} // closed when it has closed the connection
	released       chan struct{} // closed when the engine has ended
	listenerClosed chan struct{} // closed when the listener is

	readOnce, respondOnce, closeOnce, releaseOnce, unbindOnce sync.Once

	isDetached atomic.Bool // what happens to inner no longer concerns the engine

	hasAccepted bool // for the goroutine of Serve
}

func newCloseHook(e *engine.Server) *closeHook {
	return &closeHook{
		engine: e, requestRead: make(chan struct{}), responseBegun: make(chan struct{}),
		connClosed: make(chan struct{}), released: make(chan struct{}), listenerClosed: make(chan struct{}),
	}
}

// fasten has inner serve t. It fails, with net/http's error, if inner is closed.
func (t *closeHook) attach(inner *http.Server) error {
	return withoutSettings(inner, func() error {
		ended := make(chan error, 1)
		go func() { ended <- inner.Serve(hookListener{t}) }()
		select {
		case <-t.requestRead: // inner's settings have been read
		case err := <-ended:
			if t.hasAccepted {
				<-t.requestRead
			}
			return err
		}
		select {
		case <-t.responseBegun:
			return nil
		case <-t.connClosed:
			return http.ErrServerClosed
		}
	})
}

// hideTies keeps ties from the hook that inner has for its connections' states. It stays in place: net/http
// calls the hook after a tie has ended, too.
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

// isClosed reports whether Shutdown or Close of inner was called.
func isClosed(inner *http.Server) bool {
	err := withoutSettings(inner, func() error { return inner.Serve(endedListener{}) })
	return errors.Is(err, http.ErrServerClosed)
}

// withoutSettings runs f, which has inner serve a tie, while inner is without the
// settings that would let its hooks see that, that net/http would change, or that
// would keep it from reading a request.
func withoutSettings(inner *http.Server, f func() error) error {
	base, conn, config, protocols := inner.BaseContext, inner.ConnContext, inner.TLSConfig, inner.Protocols
	inner.BaseContext, inner.ConnContext, inner.TLSConfig, inner.Protocols = nil, nil, nil, nil
	defer func() {
		inner.BaseContext, inner.ConnContext, inner.TLSConfig, inner.Protocols = base, conn, config, protocols
	}()
	return f()
}

// release lets inner's Shutdown return.
func (t *closeHook) release() { t.releaseOnce.Do(func() { close(t.released) }) }

// loosen ends what inner does for the tie, and leaves the engine as it is.
func (t *closeHook) detach() {
	t.isDetached.Store(true)
	t.unbindOnce.Do(func() { close(t.listenerClosed) })
	t.release()
}

// tieListener is a tie as inner's listener.
type hookListener struct{ *closeHook }

// Accept implements net.Listener.
func (l hookListener) Accept() (net.Conn, error) {
	select {
	case <-l.listenerClosed:
		return nil, net.ErrClosed
	default:
	}
	if !l.hasAccepted {
		l.hasAccepted = true
		return hookConn(l), nil
	}
	<-l.listenerClosed
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (l hookListener) Close() error {
	l.unbindOnce.Do(func() {
		close(l.listenerClosed)
		if !l.isDetached.Load() {
			_ = l.engine.StopListening() // whoever wants the error calls our Shutdown
		}
	})
	return nil
}

// Addr implements net.Listener.
func (hookListener) Addr() net.Addr { return hookAddr{} }

// endedListener is a listener that was closed.
type endedListener struct{}

// Accept implements net.Listener.
func (endedListener) Accept() (net.Conn, error) { return nil, net.ErrClosed }

// Close implements net.Listener.
func (endedListener) Close() error { return nil }

// Addr implements net.Listener.
func (endedListener) Addr() net.Addr { return hookAddr{} }

// tieConn is a tie as inner's connection.
type hookConn struct{ *closeHook }

func (c hookConn) Read(p []byte) (n int, err error) {
	err = io.EOF
	c.readOnce.Do(func() {
		close(c.requestRead)
		n, err = copy(p, "malformed\r\n\r\n"), nil
	})
	return n, err
}

func (c hookConn) Write(p []byte) (int, error) {
	c.respondOnce.Do(func() { close(c.responseBegun) })
	select {
	case <-c.released:
	case <-c.connClosed:
	}
	return 0, net.ErrClosed
}

// Close implements net.Conn.
func (c hookConn) Close() error {
	c.closeOnce.Do(func() {
		close(c.connClosed)
		if !c.isDetached.Load() {
			_ = c.engine.Close()
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
