package engine_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/testkit"
)

// startOnLoops starts a server whose hooks run on loops.
func startOnLoops(t *testing.T, mode string, set *http.Server) (s *engine.Server, dial func() (net.Conn, error)) {
	l, dial := modes[mode](t)
	if set.ErrorLog == nil {
		set.ErrorLog = log.New(io.Discard, "", 0)
	}
	s = engine.New(set)
	s.HooksOnLoops = true
	served := goServe(s, l)
	t.Cleanup(func() {
		s.Close()
		<-served
	})
	return s, dial
}

// requestTo sends a request on a new connection and returns that after the response.
func requestTo(t *testing.T, dial func() (net.Conn, error), path string) net.Conn {
	t.Helper()
	c, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	io.WriteString(c, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
	if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
		io.Copy(io.Discard, resp.Body)
	}
	return c
}

// Each connection of a busy server is reported as closed exactly once.
func TestEveryConnectionWithHooksIsReportedAsClosed(t *testing.T) {
	const clients = 20
	for mode, each := range map[string]int{"tcp": 50, "ServeTLS": 10} { // handshakes take long
		t.Run(mode, func(t *testing.T) {
			set := &http.Server{Handler: hookHandler(t)}
			h := newHookLog(t, set)
			s, dial := startOnLoops(t, mode, set)
			var running sync.WaitGroup
			for i := range clients {
				running.Go(func() {
					for j := range each {
						c, err := dial()
						if err != nil {
							t.Error(err)
							return
						}
						if n := i + j; n%4 != 0 {
							io.WriteString(c, strings.Repeat(get, n%4))
							io.ReadFull(c, make([]byte, 20))
						} else if n%8 == 0 {
							c.(interface{ CloseWrite() error }).CloseWrite()
						}
						c.Close()
					}
				})
			}
			running.Wait()
			h.await(clients * each)
			for start := time.Now(); ; time.Sleep(time.Millisecond) {
				if accepted, open := s.Connections(); int(accepted) == clients*each && open == 0 {
					break
				} else if time.Since(start) > time.Minute {
					t.Fatalf("%d accepted, %d open", accepted, open)
				}
			}
		})
	}
}

// A hook that blocks delays its own connection only.
func TestHookThatBlocksDelaysItsConnectionOnly(t *testing.T) {
	for _, blocked := range []http.ConnState{http.StateActive, http.StateIdle, http.StateClosed} {
		t.Run(blocked.String(), func(t *testing.T) {
			var first atomic.Pointer[net.Conn]
			release, entered := make(chan bool), make(chan bool)
			_, dial := startOnLoops(t, "tcp", &http.Server{Handler: http.HandlerFunc(dump),
				ConnState: func(c net.Conn, s http.ConnState) {
					if s == blocked && first.CompareAndSwap(nil, &c) {
						close(entered)
						<-release
					}
				}})
			defer close(release)
			c, err := dial()
			if err != nil {
				t.Fatal(err)
			}
			io.WriteString(c, getOld)
			if blocked == http.StateIdle {
				io.WriteString(c, get)
				c.Close()
				c, _ = dial()
				io.WriteString(c, get)
			}
			defer c.Close()
			<-entered
			if blocked != http.StateActive {
				c.SetDeadline(time.Now().Add(time.Minute))
				if _, err := io.ReadFull(c, make([]byte, 20)); err != nil {
					t.Errorf("no response while the hook runs: %v", err)
				}
			}
			for range 4 * runtime.GOMAXPROCS(0) { // on every loop
				requestTo(t, dial, "/")
			}
		})
	}
}

// A connection ends if a hook closes it or sets a deadline that has passed.
func TestHooksEndConnections(t *testing.T) {
	for _, mode := range []string{"tcp", "unix", "ServeTLS"} {
		for _, at := range []http.ConnState{http.StateNew, http.StateActive, http.StateIdle, http.StateClosed} {
			t.Run(mode+"/"+at.String(), func(t *testing.T) {
				set := &http.Server{Handler: hookHandler(t)}
				h := newHookLog(t, set)
				h.onState = func(c net.Conn, s http.ConnState) {
					if s == at {
						c.SetDeadline(time.Now())
						c.Close()
						c.SetDeadline(time.Now())
						c.Write([]byte("x"))
						c.Read(make([]byte, 1))
					}
				}
				_, dial := startOnLoops(t, mode, set)
				c, err := dial()
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				c.SetDeadline(time.Now().Add(time.Minute))
				io.WriteString(c, get)
				// the response is sent before the connection is idle
				if at >= http.StateIdle {
					resp, err := http.ReadResponse(bufio.NewReader(c), nil)
					if err != nil || resp.StatusCode != http.StatusOK {
						t.Error(resp, err)
					}
				}
				if at == http.StateClosed {
					c.Close()
				}
				io.Copy(io.Discard, c)
				h.await(1)
			})
		}
	}
}

// A program that closes connections while it holds a mutex that its hook needs does not deadlock.
func TestConnectionsAreClosedWithoutCallingHooks(t *testing.T) {
	for _, mode := range []string{"tcp", "ServeTLS"} {
		t.Run(mode, func(t *testing.T) {
			set := &http.Server{Handler: hookHandler(t)}
			h := newHookLog(t, set)
			s, dial := startOnLoops(t, mode, set)
			const n = 10
			for range n {
				requestTo(t, dial, "/")
			}
			h.mu.Lock()
			for c := range h.states {
				c.Close()
			}
			h.mu.Unlock()
			h.await(n)
			requestTo(t, dial, "/")
			h.awaitState("idle")
			h.mu.Lock()
			s.Close()
			h.mu.Unlock()
			h.await(n + 1)
		})
	}
}

// A hook that shuts down its server ends it.
func TestHookShutsDownServer(t *testing.T) {
	for _, at := range []http.ConnState{http.StateNew, http.StateActive, http.StateIdle, http.StateClosed} {
		t.Run(at.String(), func(t *testing.T) {
			var running atomic.Pointer[engine.Server]
			ended := make(chan error, 1)
			var once sync.Once
			set := &http.Server{Handler: hookHandler(t)}
			h := newHookLog(t, set)
			h.onState = func(_ net.Conn, state http.ConnState) {
				if state == at {
					once.Do(func() {
						ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
						defer cancel()
						s := running.Load()
						s.Shutdown(ctx) // may wait for its own connection
						go func() { ended <- s.Shutdown(context.Background()) }()
					})
				}
			}
			s, dial := startOnLoops(t, "tcp", set)
			running.Store(s)
			requestTo(t, dial, "/").Close()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			h.await(1)
		})
	}
}

// A hook may wait for Shutdown when its connection is idle or closed, as with net/http, even if the
// client has sent another request meanwhile.
func TestHookMayWaitForShutdown(t *testing.T) {
	makers := map[string]func(*http.Server) server{"goroutines": makers["tare"]}
	maps.Copy(makers, hookMakers)
	for maker := range makers {
		for _, mode := range []string{"tcp", "unix", "ServeTLS"} {
			for name, text := range map[string]string{"idle": get, "pipelined": get + get, "closed": getOld} {
				waitsAt := http.StateIdle
				if name == "closed" {
					waitsAt = http.StateClosed
				}
				t.Run(maker+"/"+mode+"/"+name, func(t *testing.T) {
					t.Parallel()
					set := &http.Server{Handler: hookHandler(t), ErrorLog: log.New(io.Discard, "", 0)}
					h := newHookLog(t, set)
					l, dial := modes[mode](t)
					s := makers[maker](set)
					ended := make(chan error, 1)
					h.onState = func(_ net.Conn, state http.ConnState) {
						if state == waitsAt {
							ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
							defer cancel()
							ended <- s.(interface{ Shutdown(context.Context) error }).Shutdown(ctx)
						}
					}
					served := goServe(s, l)
					defer func() { s.Close(); <-served }()
					c, err := dial()
					if err != nil {
						t.Fatal(err)
					}
					defer c.Close()
					c.SetDeadline(time.Now().Add(time.Minute))
					io.WriteString(c, text)
					if err := <-ended; err != nil {
						t.Error(err)
					}
					want := "new active idle closed"
					if waitsAt == http.StateClosed {
						want = "new active closed"
					}
					if got := h.await(1)[0]; got != want {
						t.Errorf("states %s, want %s", got, want)
					}
					if b, _ := io.ReadAll(c); strings.Count(string(b), "200 OK") != 1 {
						t.Errorf("the client has received %q", b)
					}
				})
			}
		}
	}
}

// A panic in a hook ends its connection, as on the goroutine path.
func TestPanicInHookEndsItsConnection(t *testing.T) {
	for _, maker := range []string{"net/http", "loops"} {
		for _, at := range []http.ConnState{http.StateActive, http.StateIdle} {
			t.Run(maker+"/"+at.String(), func(t *testing.T) {
				logged := new(testkit.Log)
				set := &http.Server{Handler: hookHandler(t), ErrorLog: log.New(logged, "", 0)}
				h := newHookLog(t, set)
				var once sync.Once
				h.onState = func(_ net.Conn, s http.ConnState) {
					if s == at {
						once.Do(func() { panic("of the hook") })
					}
				}
				l, dial := modes["tcp"](t)
				s := hookMakers[maker](set)
				served := goServe(s, l)
				defer func() { s.Close(); <-served }()
				io.Copy(io.Discard, requestTo(t, dial, "/"))
				want := "new " + at.String() + " closed"
				if at == http.StateIdle {
					want = "new active idle closed"
				}
				if got := h.await(1)[0]; got != want {
					t.Errorf("states %s, want %s", got, want)
				}
				requestTo(t, dial, "/")
				for _, want := range []string{"panic serving", "of the hook"} {
					if text := logged.String(); !strings.Contains(text, want) {
						t.Errorf("logged %q, want %q", text, want)
					}
				}
			})
		}
	}
}

// The connection that hooks receive has the addresses and the descriptor of the client's, and
// becomes the connection of a handler that hijacks it.
func TestHooksReceiveTheConnection(t *testing.T) {
	set := &http.Server{}
	newHookLog(t, set)
	set.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		kept := r.Context().Value(connKey{}).(net.Conn)
		local := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		if kept.RemoteAddr().String() != r.RemoteAddr || kept.LocalAddr().String() != local.String() {
			t.Errorf("addresses %v and %v", kept.RemoteAddr(), kept.LocalAddr())
		}
		if _, err := kept.Read(make([]byte, 1)); err == nil {
			t.Error("Read succeeds")
		}
		raw, err := kept.(syscall.Conn).SyscallConn()
		if err != nil {
			t.Error(err)
			return
		}
		if err := raw.Control(func(fd uintptr) {
			if _, err := syscall.Getpeername(int(fd)); err != nil {
				t.Error(err)
			}
		}); err != nil {
			t.Error(err)
		}
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		if _, ok := c.(*net.TCPConn); !ok {
			t.Errorf("the handler receives a %T", c)
		}
		io.WriteString(kept, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		kept.Close()
		if _, err := c.Write([]byte("x")); err == nil {
			t.Error("the connection is open after its Close")
		}
	})
	_, dial := startOnLoops(t, "tcp", set)
	io.Copy(io.Discard, requestTo(t, dial, "/"))
}

// A server without the option keeps the connections of package net for its hooks.
func TestHooksReceiveConnectionsOfPackageNet(t *testing.T) {
	for mode, want := range map[string]string{"tcp": "*net.TCPConn", "unix": "*net.UnixConn", "ServeTLS": "*tls.Conn"} {
		t.Run(mode, func(t *testing.T) { testHookConnType(t, mode, want) })
	}
}

// A ConnState hook that ends its goroutine ends an HTTP/2 connection, which Shutdown then does not
// wait for.
func TestHookThatExitsEndsSession(t *testing.T) {
	const frames = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" +
		"\x00\x00\x06\x01\x05\x00\x00\x00\x01\x82\x86\x84\x41\x01a" // GET /
	for at := 2; at <= 5; at++ { // Active, Idle, and both again for the request
		protocols := new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true)
		var calls atomic.Int32
		closed := make(chan struct{})
		nothing := func(http.ResponseWriter, *http.Request) {}
		set := &http.Server{Protocols: protocols, Handler: http.HandlerFunc(nothing)}
		set.ConnState = func(_ net.Conn, s http.ConnState) {
			if s == http.StateClosed {
				close(closed)
			} else if int(calls.Add(1)) == at {
				runtime.Goexit()
			}
		}
		s, dial := startOnLoops(t, "tcp", set)
		c, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(time.Minute))
		io.WriteString(c, frames)
		if _, err := io.Copy(io.Discard, c); err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("state %d: %v", at, err)
		}
		c.Close()
		limit, cancel := context.WithTimeout(context.Background(), time.Minute)
		if err := s.Shutdown(limit); err != nil {
			t.Errorf("state %d: Shutdown returns %v", at, err)
			cancel()
			continue
		}
		cancel()
		<-closed
	}
}
