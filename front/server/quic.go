package server

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tarehq/tare/front/nginxconf"
	"github.com/tarehq/tare/internal/listen"
	"github.com/tarehq/tare/upgrade"
)

// HTTP3 makes servers for HTTP/3. Package front/http3 implements it, which this package does not
// import: programs without HTTP/3 do not carry QUIC.
type HTTP3 interface {
	// Serve serves a UDP socket. It returns at once.
	Serve(HTTP3Config) (HTTP3Server, error)
}

// HTTP3Config is what a server for HTTP/3 needs.
type HTTP3Config struct {
	Conn     *net.UDPConn // the server closes it at its end
	Handler  http.Handler
	TLS      *tls.Config
	ErrorLog *log.Logger
	// QUIC, HeaderTimeout, IdleTimeout and HeaderBytes are those of nginxconf.Listener.
	QUIC                       nginxconf.QUIC
	HeaderTimeout, IdleTimeout time.Duration
	HeaderBytes                int64
	// Files passes files to processes that replace this one. It is nil without Options.Upgrade.
	Files HTTP3Files
}

// HTTP3Files passes files from a process to the one that replaces it: see upgrade.Upgrader. Their
// names begin with "http3 ".
type HTTP3Files interface {
	AddFile(*os.File)
	RemoveFile(*os.File)
	Files(prefix string) []*os.File
	OnHandover(stop, resume func()) (remove func())
}

// HTTP3Server serves a UDP socket.
type HTTP3Server interface {
	// Replace changes the settings, except Conn and Files. Connections that are open end after
	// their requests in progress, with GOAWAY.
	Replace(HTTP3Config)
	// Retire accepts no more connections, and ends those that are open in the same way. If the
	// process is replaced, the other one reads from the socket, and forwards packets.
	Retire(isReplaced bool)
	// Shutdown retires the server, waits until all connections have ended, and closes the socket.
	// It closes the connections when ctx ends.
	Shutdown(ctx context.Context) error
	// Close closes all connections and the socket.
	Close() error
	// Connections returns the numbers of accepted and of open connections.
	Connections() (accepted, open int64)
}

// quicPrefix starts the addresses of UDP sockets.
const quicPrefix = "quic:"

func isQUIC(l *nginxconf.Listener) bool { return strings.HasPrefix(l.Addr, quicPrefix) }

// quicSocket is a UDP socket, open while the configuration names its address and while connections
// of an earlier configuration end.
type quicSocket struct {
	config nginxconf.Listener
	conn   *net.UDPConn
	server HTTP3Server // nil until it is served
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

// passedFiles is the HTTP3Files of a process. Only the goroutine that serves sockets uses its list.
type passedFiles struct {
	*upgrade.Upgrader // for its other methods
	all               []*os.File
}

// Files implements HTTP3Files.
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
func (s *Server) http3Config(q *quicSocket) HTTP3Config {
	c := HTTP3Config{
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
func (s *Server) drainQUIC(old HTTP3Server) {
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

// Replace implements HTTP3Server.
func (failedHTTP3) Replace(HTTP3Config) {}

// Retire implements HTTP3Server.
func (failedHTTP3) Retire(bool) {}

// Shutdown implements HTTP3Server.
func (failedHTTP3) Shutdown(context.Context) error { return nil }

// Close implements HTTP3Server.
func (failedHTTP3) Close() error { return nil }

// Connections implements HTTP3Server.
func (failedHTTP3) Connections() (accepted, open int64) { return 0, 0 }
