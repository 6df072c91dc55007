package server

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/internal/sdnotify"
)

// How a Server ends, and servers of its sockets:
//
//	quit      a signal, the end of ctx or a failed listener: closes the sockets, and finishes
//	handOver  another process has taken over: as quit, but idle connections stay for a while
//	finish    drains all servers, and then closes the handler; at the end of the time it aborts
//	replace   a reload has made new servers: retires the old ones, and drains them
//	drain     waits in the background until a server has no requests, or its time has passed

// quit waits for active requests, and ends those that are left when finishing says so.
func (s *Server) quit(ctx context.Context) error {
	finishing, cancel := s.finishing(ctx)
	defer cancel()
	isReplaced := s.stopUpgrades()
	if !isReplaced {
		s.notifyManager(sdnotify.Stopping)
	}
	s.stopAccepting(isReplaced)
	return s.finish(finishing)
}

// finishing returns the context of active requests at the end of the server: it ends after
// worker_shutdown_timeout, Options.Grace after the end of ctx, and at a second signal.
func (s *Server) finishing(ctx context.Context) (context.Context, context.CancelFunc) {
	s.changes.Lock()
	finishing, cancel := withLimit(s.config.Front.ShutdownTimeout)
	s.changes.Unlock()
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(s.options.grace(), cancel) })
	stopAbort := context.AfterFunc(s.aborted, cancel)
	return finishing, func() {
		stop()
		stopAbort()
		cancel()
	}
}

// stopAccepting closes the listening sockets. If another process serves them, unix sockets stay.
func (s *Server) stopAccepting(isReplaced bool) {
	s.changes.Lock()
	s.serving = false // the sockets do not change any more
	s.changes.Unlock()
	s.issued.Stop()
	call(s.options.Draining)
	if isReplaced {
		s.keepPID()
	}
	for _, socket := range s.sockets {
		if u, ok := socket.base.(*net.UnixListener); ok && isReplaced {
			u.SetUnlinkOnClose(false)
		}
		socket.base.Close()
	}
}

// finish waits for active requests until ctx ends.
func (s *Server) finish(ctx context.Context) error {
	close(s.stopping)
	for _, socket := range s.sockets {
		s.drainAll(socket, 0)
	}
	s.changes.Lock()
	for _, socket := range s.quicSockets {
		if socket.listeners != nil { // removed ones drain already
			s.drainQUIC(socket, 0)
		}
	}
	s.changes.Unlock()
	done := make(chan error, 1)
	go func() {
		s.draining.Wait()
		done <- s.closeFront() // waits for hijacked connections
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	s.closeActive()
	s.front.Abort()
	select {
	case err := <-done: // it has written the last lines of logs
		return errors.Join(ErrAborted, err)
	case <-time.After(logCloseTimeout):
		return ErrAborted
	}
}

func (s *Server) closeActive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for old := range s.active {
		_ = old.Close() // ErrAborted covers its error
	}
}

// drainAll lets a socket's servers finish their requests in the background, at most for a time; 0 is
// no limit.
func (s *Server) drainAll(old *socket, atMost time.Duration) {
	for _, server := range old.active {
		s.drain(server, 0, atMost)
	}
}

// replace stops servers from accepting connections and closes each connection after its next
// request. Closing idle connections at once would lose requests that are on their way. When they
// have ended or timed out, the server shuts down. All of this takes atMost; 0 is no limit.
func (s *Server) replace(old *socket, atMost time.Duration) {
	old.accepting.Close()
	for i, server := range old.active {
		server.Retire()
		s.drain(server, old.listeners[i].IdleTimeout, atMost)
	}
}

// withLimit returns a context that ends after a time; 0 is no limit.
func withLimit(atMost time.Duration) (context.Context, context.CancelFunc) {
	if atMost == 0 {
		return context.WithCancel(context.Background())
	}
	return context.WithTimeout(context.Background(), atMost)
}

func (s *Server) drain(old *tare.Server, after, atMost time.Duration) {
	ctx, cancel := withLimit(atMost)
	s.draining.Go(func() {
		defer cancel()
		waitForClients(ctx, after, s.stopping, func() int64 {
			_, open := old.Connections()
			return open
		})
		// It returns when all requests are done, the time has passed or the server is closed.
		if err := old.Shutdown(ctx); err != nil {
			_ = old.Close()
		}
		s.removeLive(old)
	})
}
