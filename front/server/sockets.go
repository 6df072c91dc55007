package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/tarehq/tare"
	"github.com/tarehq/tare/front"
	"github.com/tarehq/tare/front/internal/grammar"
	"github.com/tarehq/tare/front/nginxconf"
	"github.com/tarehq/tare/internal/listen"
	"github.com/tarehq/tare/internal/proxyproto"
)

// socketMode is the mode of unix sockets, as in nginx.
const socketMode = 0o666

// connWindow is the window of an HTTP/2 connection, unless that of a stream is larger.
const connWindow = 1 << 20

// socket is a listening socket, as a configuration has it. That of all addresses of a port accepts
// for its single addresses, too: see sharedSocket.
type socket struct {
	listeners []nginxconf.Listener // the socket's own address, and then the single ones
	base      net.Listener         // open while the configuration names its address
	accepting net.Listener         // a duplicate, so that the servers of a reload can replace older ones
	active    []*tare.Server       // of the listeners; they accept from the duplicate
}

// newSocket returns a socket that accepts from base.
func newSocket(base net.Listener, listeners []nginxconf.Listener) (*socket, error) {
	file, err := listen.Duplicate(base, base.Addr().String())
	if err != nil {
		return nil, fmt.Errorf("listen %w", err)
	}
	defer file.Close()
	accepting, err := net.FileListener(file)
	return &socket{listeners: listeners, base: base, accepting: accepting}, err
}

func (s *socket) close() {
	s.base.Close()
	s.accepting.Close()
}

// socketAt returns the socket of an address, or nil.
func socketAt(all []*socket, addr string) *socket {
	for _, s := range all {
		if s.listeners[0].Addr == addr {
			return s
		}
	}
	return nil
}

// socketsOf returns the listeners of TCP and unix sockets, or those of UDP, by socket.
func socketsOf(all []nginxconf.Listener, ofQUIC bool) [][]nginxconf.Listener {
	var sockets [][]nginxconf.Listener
	var single []nginxconf.Listener // single addresses of a port with a socket for all addresses
	at := make(map[string]int)
	for i := range all {
		if grammar.IsQUIC(all[i].Addr) != ofQUIC {
			continue
		}
		wildcard := grammar.Wildcard(all[i].Addr)
		if wildcard != "" && slices.ContainsFunc(all, func(l nginxconf.Listener) bool { return l.Addr == wildcard }) {
			single = append(single, all[i])
			continue
		}
		at[all[i].Addr] = len(sockets)
		sockets = append(sockets, all[i:i+1:i+1])
	}
	for _, l := range single {
		i := at[grammar.Wildcard(l.Addr)]
		sockets[i] = append(sockets[i], l)
	}
	return sockets
}

// openSockets opens the sockets of the configuration and accepts those that are open already.
func (s *Server) openSockets(all []nginxconf.Listener, inherited *listen.Passed) error {
	s.changes.Lock()
	defer s.changes.Unlock()
	for _, listeners := range socketsOf(all, false) {
		opened, err := s.openSocket(listeners, inherited)
		if err != nil {
			return err
		}
		s.sockets = append(s.sockets, opened)
	}
	for _, listeners := range socketsOf(all, true) {
		opened, err := s.openQUIC(listeners, inherited)
		if err != nil {
			return err
		}
		s.quicSockets = append(s.quicSockets, opened)
	}
	s.keepPassedQUIC()
	return s.checkUnused(inherited)
}

func (s *Server) openSocket(listeners []nginxconf.Listener, inherited *listen.Passed) (*socket, error) {
	l := &listeners[0]
	base, err := s.listen(specOf(l), socketOptions(l), inherited)
	if err == nil {
		opened, err := newSocket(base, listeners)
		if err != nil {
			base.Close()
		}
		return opened, err
	}
	for _, other := range s.sockets {
		if at := other.listeners[0].Addr; errors.Is(err, listen.ErrInUse) && portOf(at) == portOf(l.Addr) {
			return nil, fmt.Errorf("listen %s: this process listens on %s, and the system permits only one of them (a change from one to the other requires a restart)",
				l.Addr, at)
		}
	}
	return nil, fmt.Errorf("listen %w", err)
}

func socketOptions(l *nginxconf.Listener) listen.Options {
	return listen.Options{SocketMode: socketMode, Backlog: l.Backlog, ReusePort: l.ReusePort}
}

// portOf returns the port of an address, or a text that no port is equal to.
func portOf(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }

// specOf returns the address to listen on. As in nginx, "all addresses" means those of one IP
// version.
func specOf(l *nginxconf.Listener) listen.Spec {
	if path, ok := strings.CutPrefix(l.Addr, "unix:"); ok {
		return listen.Spec{Network: "unix", Address: path}
	}
	network, addr := "tcp", l.Addr
	if rest, ok := strings.CutPrefix(addr, grammar.QUICPrefix); ok {
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

// startSocket starts the servers of a socket.
func (s *Server) startSocket(socket *socket) {
	for i, accepting := range split(socket.accepting, socket.listeners) {
		at := &socket.listeners[i]
		server := s.newServer(at)
		socket.active = append(socket.active, server)
		s.addLive(server)
		if at.Proxied {
			accepting = proxyproto.Listener{Listener: accepting,
				Broken: func(remote net.Addr, err error) {
					s.front.ErrorLogger().Printf("http: connection from %v closed: %v", remote, err)
				},
				Context: func(ctx context.Context, c *proxyproto.Conn) context.Context {
					return front.WithProxyHeader(ctx, func() (source, destination netip.AddrPort) {
						return c.Header.Source, c.Header.Destination
					})
				}}
		}
		go s.accept(server, accepting, at.TLS)
	}
}

func (s *Server) accept(server *tare.Server, l net.Listener, secure bool) {
	var err error
	if secure {
		err = server.ServeTLS(l, "", "")
	} else {
		err = server.Serve(l)
	}
	if !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		s.fail(err)
	}
}

// fail ends Run with an error, unless an earlier one does.
func (s *Server) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
}

// Limits of HTTP/2 connections on which nothing moves.
const (
	maxPingInterval = 60 * time.Second // longest time until a PING
	pingTimeout     = 15 * time.Second // for the acknowledgment of a PING
	// writeByteTimeout limits the time in which a client accepts no byte.
	writeByteTimeout = 60 * time.Second
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

// maxHeaderLines limits the field lines of a request's head. nginx limits their bytes only, or what
// max_headers sets.
const maxHeaderLines = 1000

func (s *Server) newServer(at *nginxconf.Listener) *tare.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(at.HTTP2 && at.TLS)
	protocols.SetUnencryptedHTTP2(at.HTTP2 && !at.TLS)
	server := tare.Wrap(&http.Server{
		Handler: s.handler(), ErrorLog: s.front.ErrorLogger(), Protocols: protocols,
		DisableGeneralOptionsHandler: true,
		HTTP2: &http.HTTP2Config{SendPingTimeout: pingInterval(at.HeaderTimeout), PingTimeout: pingTimeout,
			WriteByteTimeout: writeByteTimeout, MaxConcurrentStreams: at.HTTP2Streams,
			MaxReceiveBufferPerStream:     int(at.HTTP2Window),
			MaxReceiveBufferPerConnection: max(connWindow, int(at.HTTP2Window))},
		MaxHeaderBytes: int(at.HeaderBytes), ReadHeaderTimeout: at.HeaderTimeout, IdleTimeout: at.IdleTimeout,
	})
	server.SendTimeout = at.SendTimeout
	server.MaxHeaderValueCount, server.MaxFieldBytes = maxHeaderLines, int(at.HeaderFieldBytes)
	server.Refused = func(r tare.Refusal) { s.front.LogRejected(r.Request, r.Line, r.Status, r.Sent) }
	if at.TLS {
		server.Plaintext = http.HandlerFunc(s.front.ServePlaintext)
		server.TLSConfig = &tls.Config{GetConfigForClient: s.configForClient}
	}
	if at.IdleTimeout == 0 {
		server.SetKeepAlivesEnabled(false)
	}
	return server
}

// handler returns what servers call: the front.Handler itself if nothing comes before it, since it
// then knows that it owns the requests.
func (s *Server) handler() http.Handler {
	if len(s.config.Front.Issuers) > 0 {
		return s.issued.Handler(s.front)
	}
	return s.front
}

// liveServer is a *tare.Server or a quic.Server.
type liveServer interface {
	Connections() (accepted, open int64)
	Close() error
}

func (s *Server) addLive(server liveServer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active[server] = true
}

// removeLive removes a server that has ended.
func (s *Server) removeLive(server liveServer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.active, server)
	accepted, _ := server.Connections()
	s.closedConns += accepted
}

// connections counts the connections of all servers, and those on which a part of a head has
// arrived.
func (s *Server) connections() (accepted, open, reading int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	accepted = s.closedConns
	for server := range s.active {
		a, o := server.Connections()
		accepted, open = accepted+a, open+o
		if r, ok := server.(interface{ Reading() int64 }); ok { // QUIC delivers whole heads
			reading += r.Reading()
		}
	}
	return accepted, open, reading
}
