package engine_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/engine"
)

// plainListener is a wrapped listener whose connections shards may serve.
type plainListener struct {
	net.Listener
	mu  sync.Mutex
	all []*plainConn
}

// plainConn counts calls of Close.
type plainConn struct {
	net.Conn
	closes atomic.Int32
}

func (l *plainListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	w := &plainConn{Conn: c}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, w)
	return w, nil
}

func (c *plainConn) ReplaceConn(f func(net.Conn) net.Conn) { c.Conn = f(c.Conn) }

func (c *plainConn) Close() error {
	c.closes.Add(1)
	return c.Conn.Close()
}

// CloseWrite is what the server needs on the goroutine path.
func (c *plainConn) CloseWrite() error { return c.Conn.(interface{ CloseWrite() error }).CloseWrite() }

// nestedListener wraps each connection twice.
type nestedListener struct{ *plainListener }

func (l nestedListener) Accept() (net.Conn, error) {
	c, err := l.plainListener.Accept()
	if err != nil {
		return nil, err
	}
	return &plainConn{Conn: c}, nil
}

// hookListener is a mode's listener and a function that connects to it. Two modes are those of
// wrapped listeners.
func hookListener(t *testing.T, mode string) (net.Listener, func() (net.Conn, error)) {
	switch mode {
	case "wrapped":
		l, dial := modes["tcp"](t)
		return &plainListener{Listener: l}, dial
	case "nested":
		l, dial := modes["tcp"](t)
		return nestedListener{&plainListener{Listener: l}}, dial
	case "wrapped TLS":
		l, dial := modes["ServeTLS"](t)
		secure := l.(secureListener)
		return secureListener{&plainListener{Listener: secure.Listener}, secure.config}, dial
	}
	return modes[mode](t)
}

// openFiles returns how many descriptors the process has.
func openFiles(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// The connections of a wrapped listener are served on shards. Each wrapper is closed once, when its
// connection has ended, and no descriptor is left.
func TestWrappedConnectionsAreClosedOnce(t *testing.T) {
	const n = 200
	for _, mode := range []string{"wrapped", "wrapped TLS"} {
		t.Run(mode, func(t *testing.T) {
			before := openFiles(t)
			l, dial := hookListener(t, mode)
			s := engine.New(&http.Server{Handler: http.HandlerFunc(dump), ErrorLog: log.New(io.Discard, "", 0)})
			served := goServe(s, l)
			for i := range n {
				c, err := dial()
				if err != nil {
					t.Fatal(err)
				}
				switch i % 4 {
				case 0: // nothing
				case 1:
					io.WriteString(c, getOld)
					io.Copy(io.Discard, c)
				default:
					io.WriteString(c, get)
					io.ReadFull(c, make([]byte, 20))
				}
				if i%4 != 3 {
					c.Close()
				} else {
					defer c.Close()
				}
			}
			s.Close()
			<-served
			wrapped, ok := l.(*plainListener)
			if !ok {
				wrapped = l.(secureListener).Listener.(*plainListener)
			}
			for i, c := range wrapped.all {
				for start := time.Now(); c.closes.Load() == 0 && time.Since(start) < time.Minute; {
					time.Sleep(time.Millisecond)
				}
				if got := c.closes.Load(); got != 1 {
					t.Errorf("connection %d: Close was called %d times", i, got)
				}
				if got := fmt.Sprintf("%T", c.Conn); got != "*shard.hookConn" {
					t.Errorf("connection %d: is above a %s", i, got)
				}
			}
			if len(wrapped.all) != n {
				t.Errorf("%d connections were accepted", len(wrapped.all))
			}
			if left := openFiles(t) - before - n/4; left > 20 { // those of pollers
				t.Errorf("%d descriptors are open", left)
			}
		})
	}
}

// A handler that hijacks a connection receives the wrapper, and its Read, Write and Close work.
func TestHijackOfWrappedConnectionReturnsWrapper(t *testing.T) {
	for mode, want := range map[string]string{"wrapped": "*engine_test.plainConn", "nested": "*engine_test.plainConn",
		"wrapped TLS": "*tls.Conn"} {
		t.Run(mode, func(t *testing.T) {
			l, dial := hookListener(t, mode)
			s := engine.New(&http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				c, rw, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer c.Close()
				line, err := rw.ReadString('\n')
				fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n%T %q %v", c, line, err)
			})})
			served := goServe(s, l)
			defer func() { s.Close(); <-served }()
			c, err := dial()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			io.WriteString(c, get)
			io.WriteString(c, "line\n")
			got, err := io.ReadAll(c)
			if end := "\r\n\r\n" + want + ` "line\n" <nil>`; err != nil || len(got) < len(end) ||
				string(got[len(got)-len(end):]) != end {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

// A program may close a wrapper, or set its deadlines, at any time.
func TestWrappersEndConnections(t *testing.T) {
	set := &http.Server{Handler: hookHandler(t)}
	h := newHookLog(t, set)
	l, dial := hookListener(t, "wrapped")
	s := engine.New(set)
	s.HooksOnLoops = true
	served := goServe(s, l)
	defer func() { s.Close(); <-served }()
	c := requestTo(t, dial, "/")
	h.awaitState("idle")
	for _, w := range l.(*plainListener).all {
		w.SetDeadline(time.Now().Add(time.Hour))
		w.Close()
	}
	io.Copy(io.Discard, c)
	h.await(1)
}

// Hooks of a wrapped listener receive its connections, and without the option those of package net.
func TestHooksReceiveWrappers(t *testing.T) {
	for _, onLoops := range []bool{true, false} {
		types := make(chan string, 1)
		l, dial := hookListener(t, "wrapped")
		s := engine.New(&http.Server{ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			types <- fmt.Sprintf("%T %T", c, c.(*plainConn).Conn)
			return ctx
		}})
		s.HooksOnLoops = onLoops
		served := goServe(s, l)
		c, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		want := "*engine_test.plainConn *net.TCPConn"
		if onLoops {
			want = "*engine_test.plainConn *shard.hookConn"
		}
		if got := <-types; got != want {
			t.Errorf("the hook receives %s, want %s", got, want)
		}
		c.Close()
		s.Close()
		<-served
	}
}
