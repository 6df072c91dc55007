package engine_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/tarehq/tare/internal/engine"
	"github.com/tarehq/tare/internal/testkit"
)

// acceptSite is a server whose connections are accepted by shards if they arrive fast.
type acceptSite struct {
	*testing.T
	server   *engine.Server
	listener net.Listener
	served   chan error
}

func serveBusy(t *testing.T) *acceptSite {
	t.Helper()
	l, _ := listen(t, "tcp", "127.0.0.1:0")
	server := engine.New(&http.Server{Handler: http.HandlerFunc(dump)})
	t.Cleanup(func() { server.Close() })
	return &acceptSite{t, server, l, goServe(server, l)}
}

// try makes a connection, and a request on it.
func (s *acceptSite) try() (net.Conn, error) {
	c, err := net.Dial("tcp", s.listener.Addr().String())
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(time.Minute))
	if _, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"); err == nil {
		_, err = http.ReadResponse(bufio.NewReader(c), nil)
	}
	return c, err
}

// connect is try for a connection that stays open until the test ends.
func (s *acceptSite) connect() {
	s.Helper()
	c, err := s.try()
	testkit.Must(s, err)
	s.Cleanup(func() { c.Close() })
}

// reachShards makes connections until shards accept. While they do, the process has another epoll
// descriptor, by which loops watch the listening socket.
func (s *acceptSite) reachShards() {
	s.Helper()
	s.connect() // the loops exist
	least := epollDescriptors(s.T)
	for start := time.Now(); ; {
		s.connect()
		n := epollDescriptors(s.T)
		if n > least {
			return
		}
		least = n // loops of another test have ended
		if time.Since(start) > time.Minute {
			s.Fatal("no shard accepts")
		}
	}
}

func epollDescriptors(t *testing.T) (n int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	testkit.Must(t, err)
	for _, e := range entries {
		if target, _ := os.Readlink(filepath.Join("/proc/self/fd", e.Name())); target == "anon_inode:[eventpoll]" {
			n++
		}
	}
	return n
}

// If its owner closes a listener to which connections arrive all the time, the kernel refuses the
// next one, and Serve returns.
func TestServeReturnsAfterBusyListenerIsClosed(t *testing.T) {
	s := serveBusy(t)
	s.reachShards()
	stop := make(chan bool)
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if c, err := s.try(); err == nil {
					c.Close()
				}
			}
		})
	}
	defer func() { close(stop); clients.Wait() }()
	time.Sleep(20 * time.Millisecond)
	s.listener.Close()
	if c, err := net.Dial("tcp", s.listener.Addr().String()); err == nil {
		t.Error("the kernel accepts connections of a closed listener")
		c.Close()
	}
	select {
	case err := <-s.served:
		if !errors.Is(err, net.ErrClosed) {
			t.Errorf("Serve returned %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("Serve does not return")
	}
}

func TestServersEndWhileShardsAccept(t *testing.T) {
	for name, end := range map[string]func(*engine.Server) error{
		"shutdown": func(s *engine.Server) error { return s.Shutdown(t.Context()) }, "close": (*engine.Server).Close,
	} {
		t.Run(name, func(t *testing.T) {
			for range 10 {
				s := serveBusy(t)
				s.reachShards()
				var clients sync.WaitGroup
				for range 4 {
					clients.Go(func() {
						for {
							c, err := s.try()
							if c != nil {
								c.Close()
							}
							if err != nil {
								return
							}
						}
					})
				}
				time.Sleep(5 * time.Millisecond)
				if err := end(s.server); err != nil {
					t.Error(err)
				}
				if err := <-s.served; !errors.Is(err, http.ErrServerClosed) {
					t.Errorf("Serve returned %v", err)
				}
				clients.Wait()
			}
		})
	}
}
