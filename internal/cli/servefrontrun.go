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

// serve serves until a signal or a listener's failure.
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

// notify registers for the signals of a front.
func (s *frontServer) notify() *serveSignals {
	c := make(chan os.Signal, 8)
	signal.Ignore(syscall.SIGPIPE) // the reader of standard output may exit; lost lines are counted
	signal.Reset(syscall.SIGHUP)   // it ends other commands
	signal.Notify(c, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGHUP)
	return &serveSignals{c}
}

func (s *frontServer) reopenLogs() {
	ctx, cancel := context.WithTimeout(context.Background(), logCloseTimeout)
	defer cancel()
	if err := errors.Join(s.handler.ReopenLogs(ctx), s.errors.reopen(ctx)); err != nil {
		s.printErrors("logs: reopening failed, still writing an old file: ", err)
		return
	}
	s.stderrLog.print("logs: reopened")
}

// printErrors prints an error, one line for each joined error.
func (s *frontServer) printErrors(prefix string, err error) {
	for line := range strings.Lines(err.Error()) {
		s.stderrLog.print(prefix + strings.TrimRight(line, "\n"))
	}
}

// reload applies the file's current contents completely or not at all. It returns the time that
// requests have to finish at a shutdown.
func (s *frontServer) reload() (grace time.Duration, ok bool) {
	result, err := s.plan.read()
	if err == nil {
		err = s.apply(result)
	}
	if err != nil {
		s.printErrors("reload: ", err)
		s.stderrLog.print("reload: failed, still serving the old configuration")
		return 0, false
	}
	s.printMessages(result, false)
	s.certs.reload(s.stderrLog.print)
	s.certs.watch(s.stderrLog.print)
	s.limits(&result.Process)
	if err := s.writePID(result.Process.PID); err != nil {
		s.stderrLog.print("warning: pid: " + err.Error())
	}
	s.stderrLog.print("reload: " + s.plan.file + ": new configuration active")
	return result.Process.Grace, true
}

// apply opens new resources, switches the handler over, and closes the old ones. Before the switch,
// an error undoes all steps; after it, no step can fail.
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
	s.tlsTable.Store(&both) // during the switch, handshakes may use either configuration
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

// socketChanges are the sockets of a new configuration.
type socketChanges []socketChange

// socketChange is a socket of a new configuration: a new one, or one that is served already.
type socketChange struct {
	*socket
	now    nginxconf.Listener
	opened bool
	start  net.Listener // for a new server; nil if the current one is kept
}

// nextSockets opens the sockets and listeners that the new configuration needs.
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
		// TLS connections keep their handshake's configuration, so TLS always gets a new server
		if n.opened || n.now.TLS || settingsOf(&n.Listener) != settingsOf(&n.now) {
			n.start, err = duplicate(n.base)
		}
		if next = append(next, n); err != nil {
			return next, err
		}
	}
	return next, nil
}

// closeOpened closes what was opened.
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

// applySockets serves new sockets, closes removed ones, and replaces servers whose settings
// changed.
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
			s.stderrLog.print("listening on " + urlOf(n.base, n.TLS))
		case n.start != nil:
			s.replace(old, idle)
		}
		sockets = append(sockets, n.socket)
	}
	for _, socket := range s.sockets {
		if !slices.Contains(sockets, socket) {
			s.stderrLog.print("no longer listening on " + urlOf(socket.base, socket.TLS))
			socket.base.Close()
			s.shutdownInBackground(socket.server)
		}
	}
	s.sockets = sockets
}

// close closes everything after the shutdown.
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
