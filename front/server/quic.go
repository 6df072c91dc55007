package server

import (
	"context"
	"crypto/tls"
	"errors"
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
	// Rejected logs requests that the server rejects without the Handler: see
	// front.Handler.LogRejected.
	Rejected func(r *http.Request, line string, status int, sent int64)
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
	PassOn(conn *net.UDPConn, isPassed bool)
}

// HTTP3Server serves a UDP socket.
type HTTP3Server interface {
	// Replace changes the settings, except Conn, Files and the host key. Connections that are open
	// end after their requests in progress, with GOAWAY.
	Replace(HTTP3Config)
	// Retire accepts no more connections, and ends those that are open in the same way. If the
	// process is replaced, the other one reads from the socket, and forwards packets.
	Retire(isReplaced bool)
	// Shutdown retires the server. wait returns when all connections have ended and the socket is
	// closed. It closes the connections when ctx ends. If Resume is called before, it returns
	// ErrResumed.
	Shutdown() (wait func(ctx context.Context) error)
	// Resume undoes Shutdown. It reports false if that closes the socket already. The server accepts
	// connections again after Replace.
	Resume() bool
	// Close closes all connections and the socket.
	Close() error
	// Connections returns the numbers of accepted and of open connections.
	Connections() (accepted, open int64)
}

// ErrResumed means that an HTTP3Server goes on serving after Shutdown.
var ErrResumed = errors.New("server: the HTTP3Server was resumed")

// quicPrefix starts the addresses of UDP sockets.
const quicPrefix = "quic:"

func isQUIC(l *nginxconf.Listener) bool { return strings.HasPrefix(l.Addr, quicPrefix) }

// quicSocket is a UDP socket, open while the configuration names its address and while connections
// of an earlier configuration end.
type quicSocket struct {
	config nginxconf.Listener
	conn   *net.UDPConn
	server HTTP3Server // nil until it is served

	isResumed bool          // an earlier reload has removed it
	ended     chan struct{} // closed when the socket is closed; nil unless the server shuts down
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
		Rejected: s.site.LogRejected,
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
		if at >= 0 {
			open := s.quicSockets[at]
			next = append(next, &quicSocket{config: *l, conn: open.conn, server: open.server})
			continue
		}
		if q := s.resumeQUIC(l); q != nil {
			next = append(next, q)
			continue
		}
		opened, err := s.openQUIC(l, new(listen.Passed))
		if err != nil {
			s.closeNewQUIC(next)
			return nil, err
		}
		next = append(next, opened)
	}
	return next, nil
}

// resumeQUIC returns the socket that an earlier reload has removed, if its connections have not
// ended yet. Otherwise the address is free.
func (s *Server) resumeQUIC(l *nginxconf.Listener) *quicSocket {
	at := slices.IndexFunc(s.removedQUIC, func(q *quicSocket) bool { return q.config.Addr == l.Addr })
	if at < 0 {
		return nil
	}
	old := s.removedQUIC[at]
	s.removedQUIC = slices.Delete(s.removedQUIC, at, at+1)
	if !old.server.Resume() {
		<-old.ended // it is being closed
		return nil
	}
	return &quicSocket{config: *l, conn: old.conn, server: old.server, isResumed: true}
}

// closeNewQUIC closes the sockets that nextQUIC has opened.
func (s *Server) closeNewQUIC(next []*quicSocket) {
	for _, q := range next {
		switch {
		case q.server == nil:
			q.conn.Close()
		case q.isResumed:
			s.removeQUIC(q)
		}
	}
}

// applyQUIC serves new sockets, replaces the settings of others if connections depend on them, and
// ends removed ones. before is the configuration that was served.
func (s *Server) applyQUIC(next []*quicSocket, before *Config) {
	for _, old := range s.quicSockets {
		at := slices.IndexFunc(next, func(q *quicSocket) bool { return q.server == old.server })
		if at < 0 {
			s.log.print("no longer listening on " + old.url())
			s.removeQUIC(old)
		} else if !sameHTTP3(before, s.config, old.config.Addr) {
			old.server.Replace(s.http3Config(next[at]))
		}
	}
	for _, q := range next {
		if q.isResumed {
			q.server.Replace(s.http3Config(q))
			q.isResumed = false
			s.log.print("listening on " + q.url())
		}
	}
	s.quicSockets = next
	s.startQUIC()
}

// removeQUIC ends a socket that the configuration does not have.
func (s *Server) removeQUIC(q *quicSocket) {
	s.drainQUIC(q)
	s.removedQUIC = slices.DeleteFunc(s.removedQUIC, (*quicSocket).hasEnded)
	s.removedQUIC = append(s.removedQUIC, q)
}

func (q *quicSocket) hasEnded() bool {
	select {
	case <-q.ended:
		return true
	default:
		return false
	}
}

// drainQUIC ends the server of a socket when its requests have ended.
func (s *Server) drainQUIC(q *quicSocket) {
	wait, ended := q.server.Shutdown(), make(chan struct{})
	q.ended = ended
	s.draining.Go(func() {
		// It returns when all requests are done, or the server is closed or resumed.
		if err := wait(context.Background()); errors.Is(err, ErrResumed) {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.activeQUIC, q.server)
		accepted, _ := q.server.Connections()
		s.closedConns += accepted
		close(ended)
	})
}

// failedHTTP3 is the server of a socket that could not be served.
type failedHTTP3 struct{}

// Replace implements HTTP3Server.
func (failedHTTP3) Replace(HTTP3Config) {}

// Retire implements HTTP3Server.
func (failedHTTP3) Retire(bool) {}

// Shutdown implements HTTP3Server.
func (failedHTTP3) Shutdown() (wait func(context.Context) error) {
	return func(context.Context) error { return nil }
}

// Resume implements HTTP3Server.
func (failedHTTP3) Resume() bool { return false }

// Close implements HTTP3Server.
func (failedHTTP3) Close() error { return nil }

// Connections implements HTTP3Server.
func (failedHTTP3) Connections() (accepted, open int64) { return 0, 0 }
