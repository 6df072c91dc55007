package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/front/nginxconf"
	"github.com/tarehq/tare/internal/listen"
	"github.com/tarehq/tare/internal/proxyproto"
	"github.com/tarehq/tare/internal/sdnotify"
)

// socketMode is the mode of unix sockets, as in nginx.
const socketMode = 0o666

// Settings of connections that a Config does not name, which are nginx's.
const (
	headerTimeout = 60 * time.Second
	idleTimeout   = 75 * time.Second
	sendTimeout   = 60 * time.Second
	headerBytes   = 32 << 10
	connWindow    = 1 << 20 // of HTTP/2, unless that of a stream is larger
)

// socket is a listening socket, open while the configuration names its address. If settings of its
// connections change, one server replaces another; each has its own duplicate of the descriptor.
type socket struct {
	config nginxconf.Listener
	base   net.Listener
	active *activeServer
}

// activeServer is a server of a socket.
type activeServer struct {
	server   *tare.Server
	listener net.Listener
}

// serverSettings are the settings of a server that require a new one if they change.
type serverSettings struct {
	tls, http2, proxied  bool
	header, idle, send   time.Duration
	bytes, field, window int64
	streams              int
}

func settingsOf(l *nginxconf.Listener) serverSettings {
	return serverSettings{
		tls: l.TLS, http2: l.HTTP2, proxied: l.Proxied, header: l.HeaderTimeout, idle: l.IdleTimeout,
		send: l.SendTimeout, bytes: l.HeaderBytes, field: l.HeaderFieldBytes, window: l.HTTP2Window,
		streams: l.HTTP2Streams,
	}
}

// openSockets opens the sockets of the configuration and accepts those that are open already.
func (s *Server) openSockets(all []nginxconf.Listener, inherited *listen.Passed) error {
	for i := range all {
		if isQUIC(&all[i]) {
			opened, err := s.openQUIC(&all[i], inherited)
			if err != nil {
				return err
			}
			s.changes.Lock()
			s.quicSockets = append(s.quicSockets, opened)
			s.changes.Unlock()
			continue
		}
		opened, err := s.openSocket(&all[i], inherited)
		if err != nil {
			return err
		}
		s.changes.Lock()
		s.sockets = append(s.sockets, opened)
		s.changes.Unlock()
	}
	s.changes.Lock()
	s.keepPassedQUIC()
	s.changes.Unlock()
	return s.checkUnused(inherited)
}

func (s *Server) openSocket(l *nginxconf.Listener, inherited *listen.Passed) (*socket, error) {
	base, err := s.listen(specOf(l), listen.Options{SocketMode: socketMode, Backlog: l.Backlog,
		ReusePort: l.ReusePort}, inherited)
	if err != nil {
		return nil, fmt.Errorf("listen %w", err)
	}
	return &socket{config: *l, base: base}, nil
}

// specOf returns the address to listen on. As in nginx, "all addresses" means those of one IP
// version.
func specOf(l *nginxconf.Listener) listen.Spec {
	if path, ok := strings.CutPrefix(l.Addr, "unix:"); ok {
		return listen.Spec{Network: "unix", Address: path}
	}
	network, addr := "tcp", l.Addr
	if rest, ok := strings.CutPrefix(addr, quicPrefix); ok {
		network, addr = "udp", rest
	}
	if port, ok := strings.CutPrefix(addr, "*:"); ok {
		return listen.Spec{Network: network + "4", Address: "0.0.0.0:" + port}
	}
	switch {
	case !strings.HasPrefix(addr, "["):
		return listen.Spec{Network: network + "4", Address: addr}
	case l.IPv6Only:
		return listen.Spec{Network: network + "6", Address: addr}
	}
	return listen.Spec{Network: network, Address: addr}
}

// startSocket starts a new server for a socket, with its own descriptor.
func (s *Server) startSocket(socket *socket, l net.Listener) {
	if socket.config.Proxied {
		l = proxyproto.Listener{Listener: l, Broken: s.brokenProxyHeader}
	}
	server := s.newServer(socket)
	socket.active = &activeServer{server, l}
	s.mu.Lock()
	s.active[socket.active] = true
	s.mu.Unlock()
	secure := socket.config.TLS
	go func() {
		var err error
		if secure {
			err = server.ServeTLS(l, "", "")
		} else {
			err = server.Serve(l)
		}
		if !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			select {
			case s.failed <- err:
			default: // the first one ends Run
			}
		}
	}()
}

// Limits of HTTP/2 connections that receive no complete frame.
const (
	maxPingInterval = 60 * time.Second // longest time until a PING
	pingTimeout     = 15 * time.Second // for the acknowledgment of a PING
)

// pingInterval returns the time until a PING. A client in the middle of HEADERS cannot acknowledge
// a PING, so this interval plus pingTimeout limits the time for HEADERS. The sum is
// client_header_timeout, but at least twice pingTimeout and at most maxPingInterval plus
// pingTimeout.
func pingInterval(headerTimeout time.Duration) time.Duration {
	if headerTimeout <= 0 {
		return maxPingInterval
	}
	return min(max(headerTimeout-pingTimeout, pingTimeout), maxPingInterval)
}

// newServer returns a server with the timeouts and protocols of a socket.
func (s *Server) newServer(socket *socket) *tare.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(socket.config.HTTP2 && socket.config.TLS)
	protocols.SetUnencryptedHTTP2(socket.config.HTTP2 && !socket.config.TLS)
	server := tare.Wrap(&http.Server{
		Handler: s.handler(), ErrorLog: s.errors.logger(), Protocols: protocols,
		DisableGeneralOptionsHandler: true,
		HTTP2: &http.HTTP2Config{SendPingTimeout: pingInterval(socket.config.HeaderTimeout), PingTimeout: pingTimeout,
			WriteByteTimeout: sendTimeout, MaxConcurrentStreams: socket.config.HTTP2Streams,
			MaxReceiveBufferPerStream:     int(socket.config.HTTP2Window),
			MaxReceiveBufferPerConnection: max(connWindow, int(socket.config.HTTP2Window))},
		MaxHeaderBytes: int(socket.config.HeaderBytes), ReadHeaderTimeout: socket.config.HeaderTimeout,
		IdleTimeout: socket.config.IdleTimeout,
	})
	if socket.config.Proxied {
		server.ConnContext, server.HooksOnLoops = withProxyHeader, true
	}
	server.SendTimeout, server.MaxFieldBytes = socket.config.SendTimeout, int(socket.config.HeaderFieldBytes)
	server.Refused = s.refused
	if socket.config.TLS {
		server.TLSConfig = &tls.Config{GetConfigForClient: s.configForClient}
	}
	if socket.config.IdleTimeout == 0 {
		server.SetKeepAlivesEnabled(false)
	}
	return server
}

// handler returns what servers call: the site itself if nothing comes before it, since
// front.Handler then knows that it owns the requests.
func (s *Server) handler() http.Handler {
	if usesIssuers(s.config) {
		return s.issued.Handler(s.site)
	}
	return s.site
}

func usesIssuers(c *Config) bool { return len(c.Front.Issuers) > 0 }

// duplicate returns a second listener of a socket, which can be closed independently.
func duplicate(l net.Listener) (net.Listener, error) {
	file, err := fileOf(l)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return net.FileListener(file)
}

// fileOf returns a duplicate of a listening socket.
func fileOf(l net.Listener) (*os.File, error) {
	file, err := listen.Duplicate(l)
	if err != nil {
		return nil, fmt.Errorf("listen %w", err)
	}
	return file, nil
}

func closeAll(all []net.Listener) {
	for _, l := range all {
		l.Close()
	}
}

// shutdownInBackground lets a server finish its requests in the background.
func (s *Server) shutdownInBackground(old *activeServer) { s.drain(old, 0) }

// replace stops a server from accepting connections and closes each connection after its next
// request. Closing idle connections at once would lose requests that are on their way. When they
// have timed out, the server shuts down.
func (s *Server) replace(old *activeServer, idle time.Duration) {
	old.listener.Close()
	old.server.Retire()
	s.drain(old, idle)
}

func (s *Server) drain(old *activeServer, after time.Duration) {
	s.draining.Go(func() {
		select {
		case <-time.After(after):
		case <-s.stopping:
		}
		_ = old.server.Shutdown(context.Background()) // returns when all requests are done or the server is closed
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.active, old)
		accepted, _ := old.server.Connections()
		s.closedConns += accepted
	})
}

// connections counts the connections of all servers, and those on which a part of a head has
// arrived.
func (s *Server) connections() (accepted, open, reading int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	accepted = s.closedConns
	for active := range s.active {
		a, o := active.server.Connections()
		accepted, open, reading = accepted+a, open+o, reading+active.server.Reading()
	}
	for active := range s.activeQUIC {
		a, o := active.Connections()
		accepted, open = accepted+a, open+o
	}
	return accepted, open, reading
}

// shutdown waits for active requests until ctx ends.
func (s *Server) shutdown(ctx context.Context) error {
	if isReplaced := s.stopUpgrades(); isReplaced {
		s.stopAccepting(true)
	} else {
		s.notifyManager(sdnotify.Stopping)
		s.stopAccepting(false)
	}
	return s.finish(ctx)
}

// stopAccepting closes the listening sockets. If another process serves them, unix sockets stay.
func (s *Server) stopAccepting(isReplaced bool) {
	s.changes.Lock()
	s.serving = false // the sockets do not change any more
	s.changes.Unlock()
	s.issued.Stop()
	call(s.options.Draining)
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
		s.shutdownInBackground(socket.active)
	}
	for _, socket := range s.quicSockets {
		s.drainQUIC(socket, false)
	}
	for _, socket := range s.removedQUIC {
		socket.server.Shutdown(false) // which drains already: it need not wait for older processes
	}
	done := make(chan error, 1)
	go func() {
		s.draining.Wait()
		done <- s.site.Close() // waits for hijacked connections
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	s.closeActive()
	select {
	case err := <-done: // it has written the last lines of logs
		return errors.Join(ErrAborted, err)
	case <-time.After(logCloseTimeout):
		return ErrAborted
	}
}

// closeActive closes all connections.
func (s *Server) closeActive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for old := range s.active {
		_ = old.server.Close() // ErrAborted covers its error
	}
	for old := range s.activeQUIC {
		_ = old.Close() // likewise
	}
}
