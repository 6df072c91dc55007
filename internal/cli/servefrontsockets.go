package cli

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
)

// frontSocketMode are the permissions of unix sockets, as nginx makes them.
const frontSocketMode = 0o666

// socket is one that is listened at, for as long as the configuration names its address. The servers that serve it, one
// after the other if how connections are kept changes, have descriptors of their own of it.
type socket struct {
	nginxconf.Listener
	base   net.Listener
	server *activeServer
}

// serving is a server that serves a socket.
type activeServer struct {
	*tare.Server
	listener net.Listener
}

// kept is what a server was made with: another one is needed if that changes.
type serverSettings struct {
	tls, http2, proxied bool
	header, idle, send  time.Duration
	bytes               int64
}

func settingsOf(l *nginxconf.Listener) serverSettings {
	return serverSettings{
		tls: l.TLS, http2: l.HTTP2, proxied: l.Proxied, header: l.HeaderTimeout, idle: l.IdleTimeout, send: l.SendTimeout, bytes: l.HeaderBytes,
	}
}

// openSockets opens all that the configuration names, and takes those that were passed.
func (s *frontServer) openSockets(all []nginxconf.Listener) error {
	for i := range all {
		opened, err := openSocket(&all[i], s.passed)
		if err != nil {
			return err
		}
		s.sockets = append(s.sockets, opened)
	}
	return s.passed.Rest()
}

func openSocket(l *nginxconf.Listener, passed *listen.Passed) (*socket, error) {
	base, err := listen.One(specOf(l), listen.Options{SocketMode: frontSocketMode, Backlog: l.Backlog, ReusePort: l.ReusePort}, passed)
	if err != nil {
		return nil, fmt.Errorf("listen %w", err)
	}
	return &socket{Listener: *l, base: base}, nil
}

// specOf is where to listen. All addresses are those of one version of IP, as in nginx.
func specOf(l *nginxconf.Listener) listen.Spec {
	if path, ok := strings.CutPrefix(l.Addr, "unix:"); ok {
		return listen.Spec{Network: "unix", Address: path}
	}
	if port, ok := strings.CutPrefix(l.Addr, "*:"); ok {
		return listen.Spec{Network: "tcp4", Address: "0.0.0.0:" + port}
	}
	switch {
	case !strings.HasPrefix(l.Addr, "["):
		return listen.Spec{Network: "tcp4", Address: l.Addr}
	case l.IPv6Only:
		return listen.Spec{Network: "tcp6", Address: l.Addr}
	}
	return listen.Spec{Network: "tcp", Address: l.Addr}
}

// startSocket has a new server serve a socket, by a descriptor of its own.
func (s *frontServer) startSocket(socket *socket, l net.Listener) {
	if socket.Proxied {
		l = proxyproto.Listener{Listener: l, Broken: s.brokenProxyHeader}
	}
	server := s.newServer(socket)
	socket.server = &activeServer{server, l}
	s.mu.Lock()
	s.active[socket.server] = true
	s.mu.Unlock()
	secure := socket.TLS
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
			default: // one is enough to end all
			}
		}
	}()
}

// Of a connection of HTTP/2 that no whole frame comes by.
const (
	maxPingInterval = 60 * time.Second // until a PING is sent, at most
	pingTimeout     = 15 * time.Second // for its acknowledgement
)

// pingAfterOf is until a PING is sent. A client cannot acknowledge it within HEADERS that do not end, so that with the time for the
// acknowledgement this bounds HEADERS: by client_header_timeout, unless that is less than twice pingTime or more than both.
func pingInterval(headerTimeout time.Duration) time.Duration {
	if headerTimeout <= 0 {
		return maxPingInterval
	}
	return min(max(headerTimeout-pingTimeout, pingTimeout), maxPingInterval)
}

// newServer makes a server of the handler for a socket, with the times and protocols of that.
func (s *frontServer) newServer(socket *socket) *tare.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(socket.HTTP2 && socket.TLS)
	protocols.SetUnencryptedHTTP2(socket.HTTP2 && !socket.TLS)
	server := tare.Wrap(&http.Server{
		Handler: s.handler, ErrorLog: s.errors.logger(), Protocols: protocols, DisableGeneralOptionsHandler: true,
		HTTP2:          &http.HTTP2Config{SendPingTimeout: pingInterval(socket.HeaderTimeout), PingTimeout: pingTimeout, WriteByteTimeout: sendTimeout},
		MaxHeaderBytes: int(socket.HeaderBytes), ReadHeaderTimeout: socket.HeaderTimeout, IdleTimeout: socket.IdleTimeout,
	})
	if socket.Proxied {
		server.ConnContext = withProxyHeader
	}
	server.SendTimeout = socket.SendTimeout
	server.Refused = func(r tare.Refusal) { s.handler.LogRefused(r.Request, r.Line, r.Status, r.Sent) }
	if socket.TLS {
		server.TLSConfig = &tls.Config{GetConfigForClient: s.configForClient}
	}
	if socket.IdleTimeout == 0 {
		server.SetKeepAlivesEnabled(false)
	}
	return server
}

// duplicate makes another listener of a socket, which can be closed by itself.
func duplicate(l net.Listener) (net.Listener, error) {
	files, ok := l.(interface{ File() (*os.File, error) })
	if !ok {
		return nil, fmt.Errorf("%s is no socket", l.Addr())
	}
	file, err := files.File()
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return net.FileListener(file)
}

// giveUp has a server end what it has begun, while nobody waits.
func (s *frontServer) shutdownInBackground(old *activeServer) { s.drain(old, 0) }

// replace has a server accept no more connections, and end those that it has after their next request: if it closed those that are
// idle, a request that is on its way would be lost. Once idle connections have timed out it gives the server up.
func (s *frontServer) replace(old *activeServer, idle time.Duration) {
	old.listener.Close()
	old.Retire()
	s.drain(old, idle)
}

func (s *frontServer) drain(old *activeServer, after time.Duration) {
	s.draining.Go(func() {
		select {
		case <-time.After(after):
		case <-s.stopping:
		}
		_ = old.Shutdown(context.Background()) // it returns when all is done, or the server is closed
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.active, old)
		accepted, _ := old.Connections()
		s.closedConns += accepted
	})
}

// connections counts those of all servers.
func (s *frontServer) connections() (accepted, open int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	accepted = s.closedConns
	for server := range s.active {
		a, o := server.Connections()
		accepted, open = accepted+a, open+o
	}
	return accepted, open
}

// shutdown ends when all requests have, or ctx.
func (s *frontServer) shutdown(ctx context.Context) error {
	for _, socket := range s.sockets {
		socket.base.Close()
	}
	close(s.stopping)
	for _, socket := range s.sockets {
		s.shutdownInBackground(socket.server)
	}
	done := make(chan struct{})
	go func() {
		s.draining.Wait()
		_ = s.handler.Close() // it waits for those that have taken their connections over
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for old := range s.active {
		_ = old.Close() // what it would say has been said
	}
	return errors.New("requests were cut off that had not ended in time; --grace gives them longer")
}
