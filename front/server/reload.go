package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/nginxconf"
	"github.com/tarehq/tare/internal/listen"
	"github.com/tarehq/tare/internal/sdnotify"
	"github.com/tarehq/tare/upgrade"
)

// Reopen reopens the files of all logs, after they have been renamed. A log whose file cannot be
// opened keeps the old one.
func (s *Server) Reopen() error {
	s.changes.Lock()
	defer s.changes.Unlock()
	if !s.serving {
		return ErrNotServing
	}
	err := s.reopenLogs()
	if err == nil {
		s.log.print("logs: reopened")
	}
	return err
}

func (s *Server) reopenLogs() error {
	ctx, cancel := context.WithTimeout(context.Background(), logCloseTimeout)
	defer cancel()
	err := s.front.ReopenLogs(ctx)
	if err != nil {
		s.printErrors("logs: reopening failed, still writing an old file: ", err)
	}
	return err
}

// Reload reads the configuration again and applies it completely or not at all. Then it reopens the
// logs. Certificates are reread in both cases. If the Source is a *Config, nothing else is done.
// While a new process starts, Reload fails: that process may have read the old configuration.
func (s *Server) Reload() error {
	if !s.isServing() {
		return ErrNotServing
	}
	// The service manager waits for both states, also if the reload fails: see Type=notify-reload in
	// systemd.service(5).
	s.notifyManager(sdnotify.Reloading, sdnotify.MonotonicUsec())
	call(s.options.Reloading)
	err := s.reload()
	if !errors.Is(err, ErrNotServing) {
		s.notifyManager(sdnotify.Ready)
		call(s.options.Ready)
	}
	return err
}

func (s *Server) isServing() bool {
	s.changes.Lock()
	defer s.changes.Unlock()
	return s.serving
}

func (s *Server) reload() error {
	s.changes.Lock()
	defer s.changes.Unlock()
	if !s.serving || s.isReplaced() {
		return ErrNotServing
	}
	if s.hasChild { // it may have read the old file already
		s.log.print("reload: failed: an upgrade is in progress (reload when it has ended)")
		return upgrade.ErrInProgress
	}
	if _, fixed := s.source.(*Config); fixed {
		return s.certs.reload(s.log.print, true)
	}
	before := s.config
	c, err := s.read()
	if err == nil {
		err = s.apply(c)
	}
	if err != nil {
		s.printErrors("reload: ", err)
		s.log.print("reload: failed, still serving the old configuration")
		return err
	}
	s.printMessages(c, false)
	_ = s.certs.reload(s.log.print, false) // it prints errors; the configuration is active anyway
	_ = s.reopenLogs()                     // likewise; some postrotate scripts send SIGHUP, as to nginx
	s.watchCerts()
	s.issued.Start()
	s.applyLimits(c, before)
	if err := s.writePID(c.Process.PID); err != nil {
		s.log.print("warning: pid: " + err.Error())
	}
	for _, text := range s.needRestart(before, c) {
		s.log.print("warning: " + text + ": the change requires a restart")
	}
	s.log.print("reload: " + c.Name + ": new configuration active")
	return nil
}

// needRestart returns the changed settings that a reload cannot apply.
func (s *Server) needRestart(before, now *Config) (all []string) {
	old, p := &before.Process, &now.Process
	if (old.User != p.User || old.Group != p.Group) && s.options.Privileges.User == "" {
		all = append(all, "user")
	}
	if old.Files > 0 && p.Files == 0 {
		all = append(all, "worker_rlimit_nofile")
	}
	for i := range p.Listeners {
		l := &p.Listeners[i]
		at := slices.IndexFunc(old.Listeners, func(o nginxconf.Listener) bool { return o.Addr == l.Addr })
		if at >= 0 && old.Listeners[at].IPv6Only != l.IPv6Only && grammar.Wildcard(l.Addr) == "" {
			all = append(all, "listen "+l.Addr+": ipv6only")
		}
	}
	return all
}

// apply opens new resources, switches the handler over, and closes the old ones. Before the switch,
// an error undoes all steps; after it, no step can fail.
func (s *Server) apply(c *Config) (err error) {
	if s.config.Handler != nil || c.Handler != nil {
		return configError(errors.New("a configuration with a Handler cannot be reloaded"))
	}
	defer func() { // of the new configuration, or of the old one after an error
		s.certs.retain(&s.config.Front)
		s.issued.Retain(&s.config.Front)
	}()
	if err := s.certs.load(&c.Front, s.log.print); err != nil {
		return configError(err)
	}
	if err := s.loadIssued(c); err != nil {
		return configError(err)
	}
	var next []*socket
	var nextQUIC []*quicSocket
	var exporter *spanExporter
	defer func() {
		if err != nil {
			s.closeNewSockets(next)
			closeNewQUIC(nextQUIC)
			_ = exporter.close() // nothing is queued
		}
	}()
	if next, err = s.nextSockets(c); err == nil {
		nextQUIC, err = s.nextQUIC(c)
	}
	if err == nil {
		exporter, err = s.newSpanExporter(c, s.front.ErrorLogger())
	}
	if err != nil {
		return err
	}
	before, after := *s.tlsTable.Load(), *newTLSTable(&c.Front, s.certs)
	both := maps.Clone(before)
	maps.Copy(both, after)
	s.tlsTable.Store(&both) // during the switch, handshakes may use either configuration
	if err := await(func() error { return s.front.Reload(c.Front) }, s.aborted.Done()); err != nil {
		s.tlsTable.Store(&before)
		return configError(err)
	}
	urls, previous := s.urls(), s.config
	s.config = c
	atMost := previous.Front.ShutdownTimeout
	s.applySpanExporter(exporter)
	s.tlsTable.Store(&after)
	s.applySockets(next, atMost)
	s.applyQUIC(nextQUIC, previous)
	s.printDifference("listening on ", s.urls(), urls)
	s.printDifference("no longer listening on ", urls, s.urls())
	return nil
}

// nextSockets returns the sockets of a new configuration, and opens those that are not open. After
// an error it returns what closeNewSockets closes.
func (s *Server) nextSockets(c *Config) (next []*socket, err error) {
	for _, listeners := range socketsOf(c.Process.Listeners, false) {
		var n *socket
		if old := socketAt(s.sockets, listeners[0].Addr); old != nil {
			n, err = newSocket(old.base, listeners)
		} else {
			n, err = s.openSocket(listeners, new(listen.Passed))
		}
		if err != nil {
			return next, err
		}
		next = append(next, n)
	}
	return next, nil
}

func (s *Server) closeNewSockets(next []*socket) {
	for _, n := range next {
		if n.accepting.Close(); socketAt(s.sockets, n.listeners[0].Addr) == nil {
			n.base.Close()
		}
	}
}

// applySockets serves new sockets, closes removed ones, and replaces the servers of others.
// Requests of before may take atMost longer; 0 is no limit.
func (s *Server) applySockets(next []*socket, atMost time.Duration) {
	for _, n := range next {
		if old := socketAt(s.sockets, n.listeners[0].Addr); old != nil {
			options := socketOptions(&n.listeners[0])
			if err := options.Apply(n.base, socketOptions(&old.listeners[0])); err != nil {
				s.log.print(fmt.Sprintf("warning: listen %s: %v", n.listeners[0].Addr, err))
			}
		}
		s.startSocket(n)
	}
	for _, old := range s.sockets {
		if socketAt(next, old.listeners[0].Addr) != nil {
			s.replace(old, atMost)
			continue
		}
		old.base.Close()
		s.drainAll(old, atMost)
	}
	s.sockets = next
}

// printDifference prints the URLs that others do not have.
func (s *Server) printDifference(prefix string, urls, others []string) {
	for _, url := range urls {
		if !slices.Contains(others, url) {
			s.log.print(prefix + url)
		}
	}
}
