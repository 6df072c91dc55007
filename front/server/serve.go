package server

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/tarehq/tare/internal/interrupt"
	"github.com/tarehq/tare/internal/sdnotify"
)

// notify registers for signals. The returned context ends at SIGTERM and SIGINT, and s.aborted at a
// second one. After that these have their default action. c receives the others in their order.
func (s *Server) notify(ctx context.Context) (_ context.Context, c chan os.Signal, stop func()) {
	if s.stopped = ctx.Done(); s.options.NoSignals {
		return ctx, nil, func() {}
	}
	c = make(chan os.Signal, 8)
	ignored := make(chan os.Signal, 1)
	notify(c, ignored, !s.options.NoHangup, s.upgrader != nil)
	ctx, aborted, stopContexts := interrupt.Contexts(ctx, os.Interrupt, syscall.SIGTERM)
	quit, stopQuit := signal.NotifyContext(ctx, quitSignal)
	s.aborted, s.stopped = aborted, quit.Done()
	return ctx, c, func() {
		stopContexts()
		stopQuit()
		signal.Stop(c)
		signal.Stop(ignored)
	}
}

// serve serves until ctx ends, a signal arrives or a listener fails.
func (s *Server) serve(ctx context.Context, actions <-chan action) error {
	watchdog := sdnotify.WatchdogTicks()
	for {
		select {
		case <-watchdog:
			s.notifyManager(sdnotify.Watchdog)
		case <-s.replaced():
			return s.handOver(ctx, actions)
		case err := <-s.failed:
			ended, end := context.WithCancel(ctx)
			end()
			return errors.Join(err, s.quit(ended))
		case <-ctx.Done():
			return s.quit(ctx)
		case <-s.drains:
			return s.quit(ctx)
		case a := <-actions:
			switch a {
			case quit:
				return s.quit(ctx)
			case reopen:
				_ = s.Reopen() // it prints its errors
			case reload:
				_ = s.Reload() // likewise
			case replace:
				go func() { _ = s.Upgrade(context.Background()) }() // likewise
			}
		}
	}
}

// close closes everything that is open, after the shutdown or a failed start.
func (s *Server) close() {
	s.changes.Lock()
	defer s.changes.Unlock()
	s.serving = false
	for _, socket := range s.sockets {
		socket.base.Close()
	}
	for _, socket := range slices.Concat(s.quicSockets, s.removedQUIC) {
		socket.conn.Close()
	}
	s.removePID()
	s.certs.close()
	s.issued.Close()
	if exporter := s.spans.Swap(nil); exporter != nil {
		s.closeSpanExporter(exporter)
	}
	s.logs.close()
}

// action is what a signal requests.
type action int

const (
	none action = iota
	quit
	reopen
	reload
	replace
)

// actionsOf returns the actions of signals, in their order. As in nginx, one that waits already is
// not repeated. Signals are always received: package signal drops one if the channel is full, which
// would be SIGUSR1 or SIGQUIT after many SIGHUP during a slow reload.
func actionsOf(signals <-chan os.Signal) (actions <-chan action, stop func()) {
	to, end := make(chan action), make(chan struct{})
	go func() {
		var waiting []action
		for {
			var first action
			var receiver chan<- action // nil if nothing waits
			if len(waiting) > 0 {
				first, receiver = waiting[0], to
			}
			select {
			case sig := <-signals:
				if a := actionOf(sig); !slices.Contains(waiting, a) {
					waiting = append(waiting, a)
				}
			case receiver <- first:
				waiting = waiting[1:]
			case <-end:
				return
			}
		}
	}()
	return to, func() { close(end) }
}
