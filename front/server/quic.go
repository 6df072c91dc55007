package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"time"

	"github.com/tarehq/tare/front/conf"
	"github.com/tarehq/tare/front/internal/listenaddr"
	"github.com/tarehq/tare/front/internal/quic"
	"github.com/tarehq/tare/front/nginxconf"
	"github.com/tarehq/tare/internal/listen"
)

// HTTP3 serves a UDP socket. It returns at once. Package front/http3 has one, which this package
// does not import: programs without HTTP/3 do not carry QUIC.
type HTTP3 func(quic.Config) (quic.Server, error)

// quicSocket is a UDP socket, open while the configuration names its address and while connections
// of an earlier configuration end. These may be of older processes.
type quicSocket struct {
	listeners []nginxconf.Listener // as of a socket; nil if no configuration of this process has named it
	conn      *net.UDPConn
	server    quic.Server // nil until it is served

	stopDrain context.CancelFunc
	isClosed  chan bool // receives, at the end of draining, whether that has closed the socket
}

// openQUIC opens a UDP socket, or returns one that is open already.
func (s *Server) openQUIC(all []nginxconf.Listener, inherited *listen.Passed) (q *quicSocket, err error) {
	q, spec := &quicSocket{listeners: all}, specOf(&all[0])
	if s.upgrader == nil {
		if q.conn, err = listen.Packets(spec, inherited); err != nil {
			return nil, fmt.Errorf("listen %w", err)
		}
		return q, nil
	}
	q.conn, err = s.upgrader.ListenPacket(spec.Network, spec.Address)
	return q, err
}

// keepPassedQUIC keeps the UDP sockets of the process that this one replaces whose addresses the
// configuration does not name, until the connections of that process have ended. Only the newest
// process reads from a socket, and it can serve the address again.
func (s *Server) keepPassedQUIC() {
	if s.upgrader == nil || s.options.HTTP3 == nil {
		return
	}
	for _, conn := range s.upgrader.PassedPackets() {
		s.removedQUIC = append(s.removedQUIC, &quicSocket{conn: conn})
	}
}

func (s *Server) http3Config(q *quicSocket) quic.Config {
	table := listenaddr.Table[nginxconf.Listener]{Any: new(nginxconf.Listener)}
	if q.listeners != nil {
		table.Any = &q.listeners[0]
	}
	for i := range q.listeners {
		_ = table.Add(q.listeners[i].Addr, &q.listeners[i]) // front.New has checked the address
	}
	c := quic.Config{
		Conn: q.conn, Handler: s.handler(), TLS: &tls.Config{GetConfigForClient: s.configForClient,
			MinVersion: tls.VersionTLS13}, ErrorLog: s.front.ErrorLogger(),
		Listener: table.Any, ListenerAt: table.GroupAt, Rejected: s.front.LogRejected,
	}
	if s.upgrader != nil {
		c.Files = s.upgrader
	}
	return c
}

// startQUIC serves the UDP sockets that are not served yet. It closes those that cannot be served,
// and calls failed with the errors.
func (s *Server) startQUIC(failed func(error)) {
	hasFailed := func(q *quicSocket) bool { return q.server == nil && !s.serveQUIC(q, failed) }
	s.quicSockets = slices.DeleteFunc(s.quicSockets, hasFailed)
	s.removedQUIC = slices.DeleteFunc(s.removedQUIC, hasFailed)
	if s.upgrader != nil {
		for _, unused := range s.upgrader.Files("") {
			unused.Close()
		}
	}
}

func (s *Server) serveQUIC(q *quicSocket, failed func(error)) (ok bool) {
	server, err := s.options.HTTP3(s.http3Config(q))
	if err != nil {
		failed(fmt.Errorf("listen %s: %w", q.conn.LocalAddr(), err))
		q.conn.Close()
		return false
	}
	q.server = server
	s.addLive(server)
	if q.listeners == nil {
		s.drainQUIC(q, true, 0)
	}
	return true
}

// nextQUIC returns the UDP sockets of a new configuration. It opens those that are not open.
// After an error it returns what closeNewQUIC closes.
func (s *Server) nextQUIC(c *Config) (next []*quicSocket, err error) {
	for _, all := range socketsOf(c.Process.Listeners, true) {
		at := slices.IndexFunc(s.quicSockets, func(q *quicSocket) bool { return q.listeners[0].Addr == all[0].Addr })
		if at >= 0 {
			open := s.quicSockets[at]
			next = append(next, &quicSocket{listeners: all, conn: open.conn, server: open.server})
			continue
		}
		if q := s.resumeQUIC(all); q != nil {
			next = append(next, q)
			continue
		}
		opened, err := s.openQUIC(all, new(listen.Passed))
		if err != nil {
			return next, err
		}
		next = append(next, opened)
	}
	return next, nil
}

// resumeQUIC returns the socket that an earlier reload has removed, if its connections have not
// ended yet. Otherwise the address is free.
func (s *Server) resumeQUIC(all []nginxconf.Listener) *quicSocket {
	at := slices.IndexFunc(s.removedQUIC, func(q *quicSocket) bool {
		return specOf(&all[0]).Matches(q.conn.LocalAddr())
	})
	if at < 0 {
		return nil
	}
	old := s.removedQUIC[at]
	s.removedQUIC = slices.Delete(s.removedQUIC, at, at+1)
	if !old.keepOpen() {
		return nil
	}
	return &quicSocket{listeners: all, conn: old.conn, server: old.server}
}

// in reports whether the server of a socket is that of one of others.
func (q *quicSocket) in(others []*quicSocket) bool {
	return slices.ContainsFunc(others, func(o *quicSocket) bool { return o.server == q.server })
}

// closeNewQUIC closes the sockets that nextQUIC has opened, and ends again those that it has resumed.
func (s *Server) closeNewQUIC(next []*quicSocket) {
	for _, q := range next {
		if q.server == nil {
			q.conn.Close()
		} else if !q.in(s.quicSockets) {
			s.removeQUIC(q, 0) // its connections keep the time of their removal
		}
	}
}

// applyQUIC serves new sockets, replaces the settings of others if connections depend on them or
// their time is limited, and ends removed ones. before is the configuration that was served.
func (s *Server) applyQUIC(next []*quicSocket, before *Config) {
	atMost := before.Front.ShutdownTimeout
	for _, old := range s.quicSockets {
		at := slices.IndexFunc(next, func(q *quicSocket) bool { return q.server == old.server })
		if at < 0 {
			s.removeQUIC(old, atMost)
		} else if atMost > 0 || !sameHTTP3(before, s.config, old.listeners, next[at].listeners) {
			old.server.Replace(s.http3Config(next[at]), atMost)
		}
	}
	for _, q := range next {
		if q.server != nil && !q.in(s.quicSockets) { // an earlier reload has removed it
			q.server.Replace(s.http3Config(q), atMost)
		}
	}
	s.quicSockets = next
	// The configuration is active, and the next reload opens these sockets again.
	s.startQUIC(func(err error) { s.printErrors("warning: not served: ", err) })
}

// removeQUIC ends a socket that the configuration does not have, within a time; 0 is no limit.
func (s *Server) removeQUIC(q *quicSocket, atMost time.Duration) {
	s.drainQUIC(q, true, atMost)
	s.removedQUIC = slices.DeleteFunc(s.removedQUIC, func(q *quicSocket) bool { return len(q.isClosed) > 0 })
	s.removedQUIC = append(s.removedQUIC, q)
}

// drainQUIC ends the server of a socket when its requests have ended, or after atMost; 0 is no
// limit. With forOthers, those of older processes must have ended, too.
func (s *Server) drainQUIC(q *quicSocket, forOthers bool, atMost time.Duration) {
	ctx, cancel := withLimit(atMost)
	isClosed := make(chan bool, 1)
	q.stopDrain, q.isClosed = cancel, isClosed
	s.draining.Go(func() {
		defer cancel()
		if err := q.server.Drain(ctx, forOthers); errors.Is(err, context.Canceled) { // by keepOpen
			isClosed <- false
			return
		}
		_ = q.server.Close() // after atMost it is open
		s.removeLive(q.server)
		isClosed <- true
	})
}

// keepOpen stops draining, and reports whether the socket is still open.
func (q *quicSocket) keepOpen() bool {
	q.stopDrain()
	return !<-q.isClosed
}

// http3Settings is what a connection of HTTP/3 keeps from its beginning on. Everything else is read
// from the configuration for each request.
type http3Settings struct {
	listener   nginxconf.Listener // without Listen
	hasIssuers bool
	hosts      []http3Host
}

// http3Host is what a handshake depends on.
type http3Host struct {
	names   []string
	rejects bool
	listen  conf.Listen // without TLSConfig
}

// http3SettingsOf returns the settings of an address, and the TLS configurations of its hosts.
func http3SettingsOf(c *Config, addr string) (s http3Settings, tls []*tls.Config) {
	s.hasIssuers = len(c.Front.Issuers) > 0
	at := slices.IndexFunc(c.Process.Listeners, func(l nginxconf.Listener) bool { return l.Addr == addr })
	if at >= 0 {
		s.listener = c.Process.Listeners[at]
		s.listener.Listen = conf.Listen{}
	}
	for i := range c.Front.Hosts {
		host := &c.Front.Hosts[i]
		for _, l := range host.Listen {
			if l.Addr != addr {
				continue
			}
			tls = append(tls, l.TLSConfig)
			l.TLSConfig = nil
			s.hosts = append(s.hosts, http3Host{host.Names, host.RejectHandshake, l})
		}
	}
	return s, tls
}

// sameHTTP3 reports whether the connections of a socket may serve on with another configuration.
func sameHTTP3(before, after *Config, old, now []nginxconf.Listener) bool {
	return slices.EqualFunc(old, now, func(a, b nginxconf.Listener) bool {
		oldSettings, oldTLS := http3SettingsOf(before, a.Addr)
		nowSettings, nowTLS := http3SettingsOf(after, b.Addr)
		return a.Addr == b.Addr && reflect.DeepEqual(oldSettings, nowSettings) &&
			slices.EqualFunc(oldTLS, nowTLS, sameTLS)
	})
}

// sameTLS reports whether TLS configurations have the same settings. Those with functions differ.
func sameTLS(a, b *tls.Config) bool {
	if a == nil || b == nil || a == b {
		return a == b
	}
	if !a.ClientCAs.Equal(b.ClientCAs) {
		return false
	}
	a, b = a.Clone(), b.Clone()
	a.ClientCAs, b.ClientCAs = nil, nil
	return reflect.DeepEqual(a, b)
}
