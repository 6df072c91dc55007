package cli

import (
	"context"
	"errors"
	"maps"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/tarehq/tare/front/nginxconf"
	"github.com/tarehq/tare/internal/listen"
)

// serve serves until a signal says to end, or a listener fails.
func (s *frontServer) serve(ctx context.Context, signals *serveSignals, drain time.Duration) error {
	for {
		select {
		case err := <-s.failed:
			bound, cancel := context.WithTimeout(context.Background(), s.plan.grace)
			defer cancel()
			return errors.Join(err, s.shutdown(bound))
		case <-ctx.Done():
			bound, cancel := context.WithTimeout(context.Background(), s.plan.grace)
			defer cancel()
			return s.shutdown(bound)
		case sig := <-signals.c:
			switch sig {
			case syscall.SIGQUIT:
				if drain > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, drain)
					defer cancel()
				}
				return s.shutdown(ctx)
			case syscall.SIGUSR1:
				s.reopenLogs()
			case syscall.SIGHUP:
				if grace, ok := s.reload(); ok {
					drain = grace
				}
			}
		}
	}
}

// notify asks for the signals that a front is sent.
func (s *frontServer) notify() *serveSignals {
	c := make(chan os.Signal, 8)
	signal.Ignore(syscall.SIGPIPE) // who reads standard output may go; what he missed is counted
	signal.Reset(syscall.SIGHUP)   // it ends other commands
	signal.Notify(c, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGHUP)
	return &serveSignals{c}
}

func (s *frontServer) reopenLogs() {
	ctx, cancel := context.WithTimeout(context.Background(), logCloseTimeout)
	defer cancel()
	if err := errors.Join(s.handler.ReopenLogs(ctx), s.errors.reopen(ctx)); err != nil {
		s.printErrors("logs: an old file is written still: ", err)
		return
	}
	s.stderrLog.print("logs: opened again")
}

// sayLines says an error, a line for each of those it joins.
func (s *frontServer) printErrors(prefix string, err error) {
	for line := range strings.Lines(err.Error()) {
		s.stderrLog.print(prefix + strings.TrimRight(line, "\n"))
	}
}

// reload takes the file as it is now, whole or not at all. It returns how long requests may take once all is to end.
func (s *frontServer) reload() (grace time.Duration, ok bool) {
	result, err := s.plan.read()
	if err == nil {
		err = s.apply(result)
	}
	if err != nil {
		s.printErrors("reload: ", err)
		s.stderrLog.print("reload: nothing has changed")
		return 0, false
	}
	s.printMessages(result, false)
	s.certs.reload(s.stderrLog.print)
	s.certs.watch(s.stderrLog.print)
	s.limits(&result.Process)
	if err := s.writePID(result.Process.PID); err != nil {
		s.stderrLog.print("warning: pid: " + err.Error())
	}
	s.stderrLog.print("reload: " + s.plan.file + " is served as it is now")
	return result.Process.Grace, true
}

// change opens what is new, has the handler change over, and then gives up what is old. Until the handler has changed all is undone if
// there is an error, and from then on there is none.
func (s *frontServer) apply(result *nginxconf.Result) error {
	if err := s.certs.load(&result.Config, s.stderrLog.print); err != nil {
		return err
	}
	next, err := s.nextSockets(result.Process.Listeners)
	if err != nil {
		s.certs.retain(s.config)
		return err
	}
	before, after := *s.tlsTable.Load(), *newTLSTable(&result.Config, s.certs)
	both := maps.Clone(before)
	maps.Copy(both, after)
	s.tlsTable.Store(&both) // handshakes meet either configuration for a moment
	if err := s.handler.Reload(result.Config); err != nil {
		next.closeOpened()
		s.tlsTable.Store(&before)
		s.certs.retain(s.config)
		return err
	}
	s.config = &result.Config
	s.tlsTable.Store(&after)
	s.applySockets(next)
	s.certs.retain(s.config)
	return nil
}

// sockets are those that a new configuration names.
type socketChanges []socketChange

// nextSocket is one of them: a new one, or one that is served already.
type socketChange struct {
	*socket
	now    nginxconf.Listener
	opened bool
	start  net.Listener // for a new server; nil if there is one that will do
}

// nextSockets opens what is needed to serve all.
func (s *frontServer) nextSockets(all []nginxconf.Listener) (next socketChanges, err error) {
	defer func() {
		if err != nil {
			next.closeOpened()
		}
	}()
	for i := range all {
		n := socketChange{socket: s.socketAt(all[i].Addr), now: all[i]}
		if n.socket == nil {
			if n.socket, err = openSocket(&all[i], new(listen.Passed)); err != nil {
				return next, err
			}
			n.opened = true
		}
		if n.opened || n.now.TLS || settingsOf(&n.Listener) != settingsOf(&n.now) { // of TLS connections keep what they agreed on
			n.start, err = duplicate(n.base)
		}
		if next = append(next, n); err != nil {
			return next, err
		}
	}
	return next, nil
}

// undo closes what was opened.
func (n socketChanges) closeOpened() {
	for _, next := range n {
		if next.start != nil {
			next.start.Close()
		}
		if next.opened {
			next.base.Close()
		}
	}
}

func (s *frontServer) socketAt(addr string) *socket {
	for _, socket := range s.sockets {
		if socket.Addr == addr {
			return socket
		}
	}
	return nil
}

// changeSockets serves what is new, gives up what is gone, and has other servers serve sockets whose connections are to be kept otherwise.
func (s *frontServer) applySockets(next socketChanges) {
	var sockets []*socket
	for _, n := range next {
		old, idle := n.server, n.IdleTimeout
		n.Listener = n.now
		if n.start != nil {
			s.startSocket(n.socket, n.start)
		}
		switch {
		case n.opened:
			s.stderrLog.print("on " + urlOf(n.base, n.TLS))
		case n.start != nil:
			s.replace(old, idle)
		}
		sockets = append(sockets, n.socket)
	}
	for _, socket := range s.sockets {
		if !slices.Contains(sockets, socket) {
			s.stderrLog.print("no longer on " + urlOf(socket.base, socket.TLS))
			socket.base.Close()
			s.shutdownInBackground(socket.server)
		}
	}
	s.sockets = sockets
}

// close closes what is open when all is over.
func (s *frontServer) close() error {
	for _, socket := range s.sockets {
		socket.base.Close()
	}
	s.removePID()
	s.certs.close()
	s.logs.close()
	ctx, cancel := context.WithTimeout(context.Background(), logCloseTimeout)
	defer cancel()
	s.errors.close(ctx)
	return nil
}
