package server

import (
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

// HTTP3 makes the server of a UDP socket. Package front/http3 has one, which this package does not
// import: programs without HTTP/3 do not carry QUIC.
type HTTP3 func(quic.Config) (quic.Server, error)

// quicSocket is a UDP socket, open while the configuration names its address and while connections
// of an earlier configuration end. These may be of older processes.
type quicSocket struct {
	listeners []nginxconf.Listener // as of a socket; nil if the configuration does not name it any more
	conn      *net.UDPConn
	server    quic.Server // nil until it is served
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
		s.quicSockets = append(s.quicSockets, &quicSocket{conn: conn})
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

// newQUICServers makes the servers of the UDP sockets that have none. It closes the sockets whose
// server cannot be made. The servers read nothing before start is called.
func (s *Server) newQUICServers() (start func(), err error) {
	var added []*quicSocket
	s.quicSockets = slices.DeleteFunc(s.quicSockets, func(q *quicSocket) bool {
		if q.server != nil {
			return false
		}
		server, failed := s.options.HTTP3(s.http3Config(q))
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("listen %s: %w", q.conn.LocalAddr(), failed))
			q.conn.Close()
			return true
		}
		q.server, added = server, append(added, q)
		return false
	})
	if s.upgrader != nil {
		for _, unused := range s.upgrader.Files("") {
			unused.Close()
		}
	}
	return func() {
		for _, q := range added {
			q.server.Replace(s.http3Config(q), 0)
			if s.addLive(q.server); q.listeners == nil {
				s.drainQUIC(q, 0)
			}
		}
	}, err
}

// nextQUIC returns the UDP sockets of a new configuration, and opens those that are not open. One
// that an earlier reload has removed is open until its connections have ended. After an error
// nextQUIC returns what closeNewQUIC closes.
func (s *Server) nextQUIC(c *Config) (next []*quicSocket, err error) {
	for _, all := range socketsOf(c.Process.Listeners, true) {
		at := slices.IndexFunc(s.quicSockets, func(q *quicSocket) bool {
			if q.listeners == nil {
				return specOf(&all[0]).Matches(q.conn.LocalAddr())
			}
			return q.listeners[0].Addr == all[0].Addr
		})
		if at >= 0 {
			open := s.quicSockets[at]
			next = append(next, &quicSocket{listeners: all, conn: open.conn, server: open.server})
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

func closeNewQUIC(next []*quicSocket) {
	for _, q := range next {
		if q.server == nil {
			q.conn.Close()
		}
	}
}

// applyQUIC serves new sockets, replaces the settings of others if connections depend on them or
// their time is limited, and ends removed ones. before is the configuration that was served.
func (s *Server) applyQUIC(next []*quicSocket, before *Config) {
	atMost := before.Front.ShutdownTimeout
	all := next
	for _, old := range s.quicSockets {
		at := slices.IndexFunc(next, func(q *quicSocket) bool { return q.server == old.server })
		isRemoved := old.listeners == nil // by an earlier reload
		switch {
		case at < 0:
			if all = append(all, old); !isRemoved {
				old.listeners = nil
				s.drainQUIC(old, atMost)
			}
		case isRemoved || atMost > 0 || !sameHTTP3(before, s.config, old.listeners, next[at].listeners):
			old.server.Replace(s.http3Config(next[at]), atMost)
		}
	}
	s.quicSockets = all
	start, err := s.newQUICServers()
	if err != nil { // the configuration is active, and the next reload opens these sockets again
		s.printErrors("warning: not served: ", err)
	}
	start()
}

// drainQUIC retires the server of a socket, and closes both when nothing needs them any more, or
// after atMost; 0 is no limit. It ends if a reload serves the socket again, as another quicSocket.
func (s *Server) drainQUIC(q *quicSocket, atMost time.Duration) {
	q.server.Retire(false, atMost)
	ctx, cancel := withLimit(atMost)
	s.draining.Go(func() {
		defer cancel()
		check := time.NewTicker(checkInterval)
		defer check.Stop()
		for !s.hasDrained(q, ctx.Err() != nil) {
			select {
			case <-check.C:
			case <-ctx.Done():
			}
		}
	})
}

// hasDrained reports whether drainQUIC has nothing more to do. While this process serves, it waits
// for the connections of older processes, too.
func (s *Server) hasDrained(q *quicSocket, mustEnd bool) bool {
	s.changes.Lock()
	defer s.changes.Unlock()
	at := slices.Index(s.quicSockets, q)
	if at < 0 {
		return true
	}
	if !mustEnd && q.server.IsNeeded(s.serving) {
		return false
	}
	_ = q.server.Close()
	s.removeLive(q.server)
	s.quicSockets = slices.Delete(s.quicSockets, at, at+1)
	return true
}

// http3Settings returns what a connection of HTTP/3 at an address keeps from its beginning on, and
// the TLS configurations of its hosts. Everything else is read from the configuration for each
// request.
func http3Settings(c *Config, addr string) (settings []any, tls []*tls.Config) {
	for _, l := range c.Process.Listeners {
		if l.Addr == addr {
			l.Listen = conf.Listen{}
			settings = append(settings, l)
		}
	}
	for i := range c.Front.Hosts {
		host := &c.Front.Hosts[i]
		for _, l := range host.Listen {
			if l.Addr == addr {
				tls = append(tls, l.TLSConfig)
				l.TLSConfig = nil
				settings = append(settings, host.Names, host.RejectHandshake, l)
			}
		}
	}
	return append(settings, len(c.Front.Issuers) > 0), tls
}

// sameHTTP3 reports whether the connections of a socket may serve on with another configuration.
func sameHTTP3(before, after *Config, old, now []nginxconf.Listener) bool {
	return slices.EqualFunc(old, now, func(a, b nginxconf.Listener) bool {
		oldSettings, oldTLS := http3Settings(before, a.Addr)
		nowSettings, nowTLS := http3Settings(after, b.Addr)
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
