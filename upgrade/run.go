package upgrade

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os/signal"
	"slices"
	"sync"
	"time"

	"github.com/tarehq/tare/internal/interrupt"
	"github.com/tarehq/tare/internal/sdnotify"
)

// A Server is a tare.Server, an fcgi.Server or an http.Server.
type Server interface {
	Serve(l net.Listener) error
	Shutdown(ctx context.Context) error
}

// A TLSServer is a tare.Server or an http.Server.
type TLSServer interface {
	Server
	ServeTLS(l net.Listener, certFile, keyFile string) error
}

// Serve makes Run serve s on l. It returns at once.
func (u *Upgrader) Serve(s Server, l net.Listener) {
	u.serveBy(s, func() error { return s.Serve(l) })
}

// ServeTLS makes Run serve s on l, over TLS. It returns at once.
func (u *Upgrader) ServeTLS(s TLSServer, l net.Listener, certFile, keyFile string) {
	u.serveBy(s, func() error { return s.ServeTLS(l, certFile, keyFile) })
}

// serveBy adds a server, which may be there for another listener.
func (u *Upgrader) serveBy(s Server, serve func() error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.serve = append(u.serve, serve); !slices.Contains(u.servers, s) {
		u.servers = append(u.servers, s)
	}
}

// Run calls Ready, serves the servers of Serve and ServeTLS, and upgrades when the process receives
// one of Options.Signals. It finishes all requests and returns nil after an upgrade, when the
// process receives SIGTERM, SIGINT or SIGQUIT, when ctx ends, or after Stop. A second signal, a
// tenth of a second later or more, closes the connections, and a third one ends the process. ctx may
// end at the same signals. Run also returns when a server fails, with that error.
func (u *Upgrader) Run(ctx context.Context) error {
	first, second, stop := interrupt.Contexts(ctx, stopSignals()...)
	defer stop()
	defer signal.Stop(u.signals)
	if err := u.Ready(); err != nil {
		return err
	}
	for _, unused := range u.Files("") {
		unused.Close()
	}
	return u.serveUntil(first, second)
}

// serveUntil serves until first ends, or one of Run's other causes. Then second ends the requests.
func (u *Upgrader) serveUntil(first, second context.Context) error {
	failed := u.startServers()
	watchdog := sdnotify.WatchdogTicks()
	for {
		var err error
		select {
		case <-u.signals:
			go func() { _ = u.Upgrade(context.Background()) }() // it logs its error
			continue
		case <-watchdog:
			u.notify(sdnotify.Watchdog)
			continue
		case <-u.done:
			return u.drain(second, first.Done())
		case err = <-failed:
		case <-first.Done():
		case <-u.stop:
		}
		u.Stop()
		return errors.Join(err, u.end(second))
	}
}

// end ends the servers of a process that is not replaced. It waits for an upgrade in progress: the
// new process would serve alone if this one exited. That upgrade may have been confirmed just now.
func (u *Upgrader) end(second context.Context) error {
	u.attempt.Lock()
	defer u.attempt.Unlock()
	u.mu.Lock()
	isReplaced := u.state == replaced
	u.mu.Unlock()
	if isReplaced {
		return u.drain(second, nil)
	}
	u.notify(sdnotify.Stopping)
	err := u.drain(second, nil)
	if path := u.options.PIDFile; path != "" {
		err = errors.Join(err, removePID(path))
	}
	return err
}

// startServers starts the servers. The channel receives the first error of a server that fails.
func (u *Upgrader) startServers() <-chan error {
	failed := make(chan error, 1)
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, serve := range u.serve {
		go func() {
			err := serve()
			if errors.Is(err, http.ErrServerClosed) || u.isEnding.Load() && isClosed(err) {
				return
			}
			select {
			case failed <- err:
			default: // the first one ends the process
			}
		}()
	}
	return failed
}

func isClosed(err error) bool { return errors.Is(err, net.ErrClosed) }

// drain finishes all requests, or closes the connections when ctx ends. If hurry is not nil, idle
// connections stay open for IdleGrace, or until hurry is closed.
func (u *Upgrader) drain(ctx context.Context, hurry <-chan struct{}) error {
	if u.options.DrainTimeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, u.options.DrainTimeout)
		defer cancel()
	}
	u.mu.Lock()
	servers := slices.Clone(u.servers)
	u.mu.Unlock()
	u.isEnding.Store(true)
	if hurry != nil && u.options.IdleGrace > 0 {
		u.retire(ctx, servers, hurry)
	}
	defer u.closeSockets()
	return u.shutdown(ctx, servers)
}

// retire makes every connection end after its next response, accepts no more of them, and waits
// until none is left or IdleGrace has passed.
func (u *Upgrader) retire(ctx context.Context, servers []Server, hurry <-chan struct{}) {
	for _, s := range servers {
		if s, ok := s.(interface{ Retire() }); ok {
			s.Retire()
		}
	}
	u.closeSockets()
	grace := time.NewTimer(u.options.IdleGrace)
	defer grace.Stop()
	check := time.NewTicker(checkInterval)
	defer check.Stop()
	for u.isBusy(servers) {
		select {
		case <-check.C:
		case <-grace.C:
			return
		case <-hurry:
			return
		case <-ctx.Done():
			return
		}
	}
}

// checkInterval is how often an ending process checks whether all connections have ended.
const checkInterval = 20 * time.Millisecond

// isBusy reports whether a connection may be open. A server that does not count its connections is
// always busy.
func (u *Upgrader) isBusy(servers []Server) bool {
	for _, s := range servers {
		counter, ok := s.(interface{ Connections() (accepted, open int64) })
		if !ok {
			return true
		}
		if _, open := counter.Connections(); open > 0 {
			return true
		}
	}
	return u.handlers.Load() > 0
}

// shutdown shuts down the servers and waits for handlers. When ctx ends, it closes the connections
// that are left.
func (u *Upgrader) shutdown(ctx context.Context, servers []Server) error {
	var all sync.WaitGroup
	errs := make([]error, len(servers))
	for i, s := range servers {
		all.Go(func() { errs[i] = s.Shutdown(ctx) })
	}
	all.Wait()
	check := time.NewTicker(checkInterval)
	defer check.Stop()
	for u.handlers.Load() > 0 && ctx.Err() == nil {
		select {
		case <-check.C:
		case <-ctx.Done():
		}
	}
	if err := errors.Join(errs...); ctx.Err() == nil || err == nil && u.handlers.Load() == 0 {
		return err
	}
	for _, s := range servers {
		if s, ok := s.(interface{ Close() error }); ok {
			_ = s.Close() // the error below covers its error
		}
	}
	return fmt.Errorf("upgrade: requests were aborted: %w", ctx.Err())
}
