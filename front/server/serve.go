package server

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/tarehq/tare/internal/interrupt"
	"github.com/tarehq/tare/internal/sdnotify"
)

// actions receive the signals that request something, one of each: as in nginx, one that waits
// already is not repeated. So hundreds of SIGHUP during a slow reload displace no other signal.
type actions struct{ reload, reopen, upgrade chan os.Signal }

// notify registers for signals. The returned context ends at SIGTERM and SIGINT, and s.aborted at a
// second one. After that these have their default action. s.stopped is also closed at SIGQUIT and by
// Drain.
func (s *Server) notify(ctx context.Context) (_ context.Context, a actions, stop func()) {
	quit, end := context.WithCancel(ctx)
	context.AfterFunc(s.undrained, end)
	if s.options.NoSignals {
		s.stopped = quit.Done()
		return ctx, a, end
	}
	a = actions{make(chan os.Signal, 1), make(chan os.Signal, 1), make(chan os.Signal, 1)}
	stopActions := a.notify(!s.options.NoHangup, s.options.Upgrade != nil)
	ctx, aborted, stopContexts := interrupt.Contexts(ctx, os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, end)
	quit, stopQuit := signal.NotifyContext(quit, quitSignal)
	s.aborted, s.stopped = aborted, quit.Done()
	return ctx, a, func() {
		stopContexts()
		stopQuit()
		stopActions()
		end()
	}
}

// serve serves until ctx ends, a signal arrives or a listener fails.
func (s *Server) serve(ctx context.Context, a actions) error {
	watchdog := sdnotify.WatchdogTicks()
	for {
		select {
		case <-watchdog:
			s.notifyManager(sdnotify.Watchdog)
		case <-s.replaced():
			return s.handOver(ctx)
		case err := <-s.failed:
			ended, end := context.WithCancel(ctx)
			end()
			return errors.Join(err, s.quit(ended))
		case <-s.stopped:
			return s.quit(ctx)
		case <-a.reopen:
			_ = s.Reopen() // it prints its errors
		case <-a.reload:
			_ = s.Reload() // likewise
		case <-a.upgrade:
			go func() { _ = s.Upgrade(context.Background()) }() // likewise
		}
	}
}

// close closes everything that is open, after the shutdown or a failed start.
func (s *Server) close() {
	s.changes.Lock()
	defer s.changes.Unlock()
	s.serving = false
	for _, socket := range s.sockets {
		socket.close()
	}
	for _, socket := range s.quicSockets {
		if socket.conn.Close(); socket.server != nil {
			_ = socket.server.Close() // the start has failed
		}
	}
	s.removePID()
	s.certs.close()
	s.issued.Close()
	if exporter := s.spans.Swap(nil); exporter != nil {
		s.closeSpanExporter(exporter)
	}
	s.logs.close()
}
