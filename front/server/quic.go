package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"

	"github.com/tarehq/tare/front/internal/quic"
	"github.com/tarehq/tare/front/nginxconf"
	"github.com/tarehq/tare/internal/listen"
	"github.com/tarehq/tare/upgrade"
)

// HTTP3 makes servers for HTTP/3. Package front/http3 implements it, which this package does not
// import: programs without HTTP/3 do not carry QUIC.
type HTTP3 interface {
	// Serve serves a UDP socket. It returns at once.
	Serve(quic.Config) (quic.Server, error)
}

// quicPrefix starts the addresses of UDP sockets.
const quicPrefix = "quic:"

func isQUIC(l *nginxconf.Listener) bool { return strings.HasPrefix(l.Addr, quicPrefix) }

// quicSocket is a UDP socket, open while the configuration names its address and while connections
// of an earlier configuration end.
type quicSocket struct {
	config nginxconf.Listener
	conn   *net.UDPConn
	server quic.Server // nil until it is served
}

func (q *quicSocket) url() string {
	a, ok := q.conn.LocalAddr().(*net.UDPAddr)
	if ok && a.IP.IsUnspecified() {
		return fmt.Sprintf("https://localhost:%d/ and all other addresses, by HTTP/3", a.Port)
	}
	return fmt.Sprintf("https://%s/, by HTTP/3", a)
}

// openQUIC opens a UDP socket, or returns one that is open already.
func (s *Server) openQUIC(l *nginxconf.Listener, inherited *listen.Passed) (q *quicSocket, err error) {
	q, spec := &quicSocket{config: *l}, specOf(l)
	if s.upgrader == nil {
		if q.conn, err = listen.Packets(spec, inherited); err != nil {
			return nil, fmt.Errorf("listen %w", err)
		}
		return q, nil
	}
	// The servers of the sockets request them only after Ready, which closes those that remain.
	s.passedFiles.all = append(s.passedFiles.all, s.upgrader.Files(http3FilePrefix)...)
	q.conn, err = s.upgrader.ListenPacket(spec.Network, spec.Address)
	return q, err
}

// http3FilePrefix starts the names of the files that servers for HTTP/3 pass on.
const http3FilePrefix = "http3 "

// passedFiles is the quic.Files of a process. Only the goroutine that serves sockets uses its list.
type passedFiles struct {
	*upgrade.Upgrader // for its other methods
	all               []*os.File
}

// Files implements quic.Files.
func (p *passedFiles) Files(prefix string) (found []*os.File) {
	p.all = slices.DeleteFunc(p.all, func(f *os.File) bool {
		has := strings.HasPrefix(f.Name(), prefix)
		if has {
			found = append(found, f)
		}
		return has
	})
	return found
}

// closeRest closes the files that no server has requested.
func (p *passedFiles) closeRest() {
	for _, f := range p.all {
		f.Close()
	}
	p.all = nil
}

// http3Config returns the settings of a UDP socket.
func (s *Server) http3Config(q *quicSocket) quic.Config {
	c := quic.Config{
		Conn: q.conn, Handler: s.handler(), TLS: &tls.Config{GetConfigForClient: s.configForClient,
			MinVersion: tls.VersionTLS13}, ErrorLog: s.errors.logger(), QUIC: q.config.QUIC,
		HeaderTimeout: q.config.HeaderTimeout, IdleTimeout: q.config.IdleTimeout, HeaderBytes: q.config.HeaderBytes,
	}
	if s.upgrader != nil {
		s.passedFiles.Upgrader = s.upgrader
		c.Files = &s.passedFiles
	}
	return c
}

// startQUIC serves the UDP sockets that are not served yet.
func (s *Server) startQUIC() {
	for _, q := range s.quicSockets {
		if q.server != nil {
			continue
		}
		server, err := s.options.HTTP3.Serve(s.http3Config(q))
		if err != nil {
			server = failedHTTP3{}
			select {
			case s.failed <- fmt.Errorf("listen %s: %w", q.conn.LocalAddr(), err):
			default: // the first one ends Run
			}
		}
		q.server = server
		s.mu.Lock()
		s.activeQUIC[server] = true
		s.mu.Unlock()
		s.log.print("listening on " + q.url())
	}
	s.passedFiles.closeRest()
}

// nextQUIC returns the UDP sockets of a new configuration. It opens those that are not open.
func (s *Server) nextQUIC(c *Config) (next []*quicSocket, err error) {
	for i := range c.Process.Listeners {
		l := &c.Process.Listeners[i]
		if !isQUIC(l) {
			continue
		}
		at := slices.IndexFunc(s.quicSockets, func(q *quicSocket) bool { return q.config.Addr == l.Addr })
		if at >= 0 { // applyQUIC assigns its fields to the socket
			next = append(next, &quicSocket{*l, s.quicSockets[at].conn, s.quicSockets[at].server})
			continue
		}
		opened, err := s.openQUIC(l, new(listen.Passed))
		if err != nil {
			closeNewQUIC(next)
			return nil, err
		}
		next = append(next, opened)
	}
	return next, nil
}

// closeNewQUIC closes the sockets that nextQUIC has opened.
func closeNewQUIC(next []*quicSocket) {
	for _, q := range next {
		if q.server == nil {
			q.conn.Close()
		}
	}
}

// applyQUIC serves new sockets, replaces the settings of others, and ends removed ones.
func (s *Server) applyQUIC(next []*quicSocket) {
	for _, old := range s.quicSockets {
		at := slices.IndexFunc(next, func(q *quicSocket) bool { return q.server == old.server })
		if at < 0 {
			s.log.print("no longer listening on " + old.url())
			old.server.Retire(false)
			s.drainQUIC(old.server)
			continue
		}
		old.server.Replace(s.http3Config(next[at]))
	}
	s.quicSockets = next
	s.startQUIC()
}

// drainQUIC ends a server when its requests have ended.
func (s *Server) drainQUIC(old quic.Server) {
	s.draining.Go(func() {
		_ = old.Shutdown(context.Background()) // returns when all requests are done or the server is closed
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.activeQUIC, old)
		accepted, _ := old.Connections()
		s.closedConns += accepted
	})
}

// failedHTTP3 is the server of a socket that could not be served.
type failedHTTP3 struct{}

// Replace implements quic.Server.
func (failedHTTP3) Replace(quic.Config) {}

// Retire implements quic.Server.
func (failedHTTP3) Retire(bool) {}

// Shutdown implements quic.Server.
func (failedHTTP3) Shutdown(context.Context) error { return nil }

// Close implements quic.Server.
func (failedHTTP3) Close() error { return nil }

// Connections implements quic.Server.
func (failedHTTP3) Connections() (accepted, open int64) { return 0, 0 }
