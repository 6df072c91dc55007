package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/tarehq/tare/internal/listen"
	"github.com/tarehq/tare/internal/safefile"
	"github.com/tarehq/tare/internal/sdnotify"
	"github.com/tarehq/tare/upgrade"
)

// openUpgrader receives the sockets of the process that this one replaces, if there is one.
func (s *Server) openUpgrader() (err error) {
	if s.options.Upgrade == nil {
		return nil
	}
	if s.options.Listeners != nil {
		return errors.New("server: Options.Listeners and Options.Upgrade are mutually exclusive")
	}
	o := *s.options.Upgrade
	o.PIDFile, o.SocketMode, o.Signals, o.Logger = "", socketMode, []os.Signal{}, slog.New(upgradeLog{s.log})
	s.upgrader, err = upgrade.New(o)
	return err
}

// isSuccessor reports whether this process is replacing another one, which serves until this one is
// ready.
func (s *Server) isSuccessor() bool { return s.upgrader != nil && s.upgrader.HasParent() }

// Upgrade starts a new process of the program, which receives the listening sockets. When it is
// ready, Run finishes the requests of this process and returns. If the new process fails, Upgrade
// prints and returns the error, and nothing changes.
func (s *Server) Upgrade(ctx context.Context) error {
	if s.upgrader == nil {
		return errors.New("server: an upgrade requires Options.Upgrade")
	}
	if !s.isServing() {
		return ErrNotServing
	}
	if err := s.upgrade(ctx); err != nil {
		s.log.print(err.Error())
		if !errors.Is(err, upgrade.ErrStopped) {
			s.log.print("upgrade: failed, this process serves on")
		}
		return err
	}
	return nil
}

func (s *Server) upgrade(ctx context.Context) error {
	if !s.upgrading.TryLock() {
		return upgrade.ErrInProgress
	}
	defer s.upgrading.Unlock()
	if err := s.checkUpgrade(); err != nil {
		return err
	}
	s.setChild(true)
	defer s.setChild(false)
	s.log.print("upgrade: starting a new process")
	err := s.upgrader.Upgrade(ctx)
	if err != nil && s.pid != "" && !s.isReplaced() {
		_ = safefile.Remove(s.pid + newPIDSuffix) // the next upgrade does so, too
	}
	return err
}

// setChild sets hasChild, between reloads: one in progress could replace the PID file of the new
// process, or remove its unix socket.
func (s *Server) setChild(has bool) {
	s.changes.Lock()
	defer s.changes.Unlock()
	s.hasChild = has
}

// checkUpgrade returns an error if no process could replace this one.
func (s *Server) checkUpgrade() error {
	switch {
	case s.outcome.Chroot || s.outcome.Landlock > 0:
		return errors.New("upgrade: a process that is confined to a folder cannot start another one: restart it")
	case os.Getpid() == 1:
		return errors.New("upgrade: the end of process 1 ends its container: start a new container")
	}
	return nil
}

// takeOver waits until the process that this one replaces has stopped accepting connections. From
// then on there is no way back.
func (s *Server) takeOver() error {
	if s.upgrader == nil {
		return nil
	}
	isSuccessor := s.upgrader.HasParent()
	if err := await(s.upgrader.Ready, s.aborted.Done()); err != nil {
		return err
	}
	if isSuccessor {
		s.publishPID()
	}
	return nil
}

// replaced returns a channel that is closed when another process has taken over.
func (s *Server) replaced() <-chan struct{} {
	if s.upgrader == nil {
		return nil
	}
	return s.upgrader.Done()
}

// stopUpgrades abandons an upgrade in progress. It reports whether another process has taken over.
func (s *Server) stopUpgrades() bool {
	if s.upgrader == nil {
		return false
	}
	s.upgrader.Stop()
	s.upgrading.Lock()
	defer s.upgrading.Unlock()
	return s.isReplaced()
}

// isReplaced reports whether another process has taken over.
func (s *Server) isReplaced() bool {
	select {
	case <-s.replaced():
		return true
	default:
		return false
	}
}

// checkInterval is how often connections that end are counted.
const checkInterval = 20 * time.Millisecond

// handOver finishes the requests of a process that another one has replaced. Each connection ends
// after its next response. Idle ones are closed after a time, at SIGQUIT, or when ctx ends.
func (s *Server) handOver(ctx context.Context) error {
	s.stopAccepting(true)
	idle := s.options.Upgrade.IdleGrace
	for _, socket := range s.sockets {
		socket.accepting.Close()
		for i, server := range socket.active {
			server.Retire()
			if s.options.Upgrade.IdleGrace == 0 {
				idle = max(idle, socket.listeners[i].IdleTimeout)
			}
		}
	}
	s.changes.Lock()
	for _, socket := range s.quicSockets {
		socket.server.Retire(true, 0)
	}
	s.changes.Unlock()
	s.log.print("upgrade: finishing the requests of this process")
	finishing, cancel := s.finishing(ctx)
	defer cancel()
	waitForClients(finishing, idle, s.stopped, func() int64 {
		_, open, _ := s.connections()
		return open
	})
	return s.finish(finishing)
}

// waitForClients waits until no connection is left, or until idle ones need not be kept any more.
func waitForClients(finishing context.Context, idle time.Duration, stopped <-chan struct{}, count func() int64) {
	after, check := time.NewTimer(idle), time.NewTicker(checkInterval)
	defer after.Stop()
	defer check.Stop()
	for {
		select {
		case <-check.C:
			if count() == 0 {
				return
			}
		case <-after.C:
			return
		case <-stopped:
			return
		case <-finishing.Done():
			return
		}
	}
}

// listen opens a listening socket, or returns one that is open already.
func (s *Server) listen(spec listen.Spec, o listen.Options, inherited *listen.Passed) (net.Listener, error) {
	if s.upgrader == nil {
		return listen.One(spec, o, inherited)
	}
	l, err := s.upgrader.ListenFunc(spec.Network, spec.Address, func() (net.Listener, error) {
		return listen.One(spec, o, inherited)
	})
	if err != nil {
		return nil, err
	}
	if err := o.Apply(l, listen.Options{}); err != nil { // it may have been passed
		l.Close()
		return nil, fmt.Errorf("%s: %w", spec, err)
	}
	return l, nil
}

// checkUnused returns an error if a socket that was passed is not served.
func (s *Server) checkUnused(inherited *listen.Passed) error {
	if s.upgrader == nil {
		return inherited.CheckUnused()
	}
	return s.upgrader.CheckUnused()
}

// notifyManager reports states to the service manager.
func (s *Server) notifyManager(states ...string) {
	if s.upgrader == nil {
		return
	}
	if err := sdnotify.Send(states...); err != nil {
		s.log.print("notifying the service manager: " + err.Error())
	}
}

// upgradeLog is a slog.Handler that prints what package upgrade logs, except the errors that
// Upgrade returns.
type upgradeLog struct{ log stderrLog }

// Enabled implements slog.Handler.
func (upgradeLog) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (l upgradeLog) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	if strings.HasPrefix(text, "upgrade failed") {
		return nil
	}
	r.Attrs(func(a slog.Attr) bool {
		text += ": " + a.Value.String()
		return true
	})
	l.log.print(text)
	return nil
}

// WithAttrs implements slog.Handler.
func (l upgradeLog) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup implements slog.Handler.
func (l upgradeLog) WithGroup(string) slog.Handler { return l }
