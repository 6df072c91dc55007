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
type tie struct {
	engine *engine.Server

	read     chan struct{} // closed when net/http has begun to read a request
	answered chan struct{} // closed when it has begun to answer it
	closed   chan struct{} // closed when it has closed the connection
	released chan struct{} // closed when the engine has ended
	unbound  chan struct{} // closed when the listener is

	reading, answering, closing, releasing, unbinding sync.Once

	loose atomic.Bool // what happens to inner no longer concerns the engine

	accepted bool // for the goroutine of Serve
}

func newTie(e *engine.Server) *tie {
	return &tie{
		engine: e, read: make(chan struct{}), answered: make(chan struct{}),
		closed: make(chan struct{}), released: make(chan struct{}), unbound: make(chan struct{}),
	}
}

// fasten has inner serve t. It fails, with net/http's error, if inner is closed.
func (t *tie) fasten(inner *http.Server) error {
	return withoutSettings(inner, func() error {
		ended := make(chan error, 1)
		go func() { ended <- inner.Serve(tieListener{t}) }()
		select {
		case <-t.read: // inner's settings have been read
		case err := <-ended:
			if t.accepted {
				<-t.read
			}
			return err
		}
		select {
		case <-t.answered:
			return nil
		case <-t.closed:
			return http.ErrServerClosed
		}
	})
}

// hideTies keeps ties from the hook that inner has for its connections' states. It stays in place: net/http
// calls the hook after a tie has ended, too.
func hideTies(inner *http.Server) {
	hook := inner.ConnState
	if hook == nil {
		return
	}
	inner.ConnState = func(nc net.Conn, state http.ConnState) {
		if _, ours := nc.(tieConn); !ours {
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
func (t *tie) release() { t.releasing.Do(func() { close(t.released) }) }

// loosen ends what inner does for the tie, and leaves the engine as it is.
func (t *tie) loosen() {
	t.loose.Store(true)
	t.unbinding.Do(func() { close(t.unbound) })
	t.release()
}

// tieListener is a tie as inner's listener.
type tieListener struct{ *tie }

// Accept implements net.Listener.
func (l tieListener) Accept() (net.Conn, error) {
	select {
	case <-l.unbound:
		return nil, net.ErrClosed
	default:
	}
	if !l.accepted {
		l.accepted = true
		return tieConn(l), nil
	}
	<-l.unbound
	return nil, net.ErrClosed
}

// Close implements net.Listener.
func (l tieListener) Close() error {
	l.unbinding.Do(func() {
		close(l.unbound)
		if !l.loose.Load() {
			_ = l.engine.StopListening() // whoever wants the error calls our Shutdown
		}
	})
	return nil
}

// Addr implements net.Listener.
func (tieListener) Addr() net.Addr { return tieAddr{} }

// endedListener is a listener that was closed.
type endedListener struct{}

// Accept implements net.Listener.
func (endedListener) Accept() (net.Conn, error) { return nil, net.ErrClosed }

// Close implements net.Listener.
func (endedListener) Close() error { return nil }

// Addr implements net.Listener.
func (endedListener) Addr() net.Addr { return tieAddr{} }

// tieConn is a tie as inner's connection.
type tieConn struct{ *tie }

func (c tieConn) Read(p []byte) (n int, err error) {
	err = io.EOF
	c.reading.Do(func() {
		close(c.read)
		n, err = copy(p, "malformed\r\n\r\n"), nil
	})
	return n, err
}

func (c tieConn) Write(p []byte) (int, error) {
	c.answering.Do(func() { close(c.answered) })
	select {
	case <-c.released:
	case <-c.closed:
	}
	return 0, net.ErrClosed
}

// Close implements net.Conn.
func (c tieConn) Close() error {
	c.closing.Do(func() {
		close(c.closed)
		if !c.loose.Load() {
			_ = c.engine.Close()
		}
	})
	return nil
}

func (tieConn) LocalAddr() net.Addr              { return tieAddr{} }
func (tieConn) RemoteAddr() net.Addr             { return tieAddr{} }
func (tieConn) SetDeadline(time.Time) error      { return nil }
func (tieConn) SetReadDeadline(time.Time) error  { return nil }
func (tieConn) SetWriteDeadline(time.Time) error { return nil }

type tieAddr struct{}

// Network implements net.Addr.
func (tieAddr) Network() string { return "tare" }
func (tieAddr) String() string  { return "tare" }
