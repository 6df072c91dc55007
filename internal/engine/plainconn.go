package engine

import (
	"crypto/tls"
	"net"
	"time"

	"github.com/tarehq/tare/internal/engine/exchange"
	"github.com/tarehq/tare/internal/engine/shard"
)

// headerConn is a shard.PlainConn that begins with a header of its own.
type headerConn interface {
	shard.PlainConn
	// ReadHeader reads the header, and nothing that follows it. It waits until a deadline, or until
	// Close is called.
	ReadHeader(deadline time.Time) error
}

// startWrapped serves a connection of a listener that is not of package net: on a shard if it
// permits that, and otherwise on the goroutine path.
func (s *Server) startWrapped(p *serveConfig, nc net.Conn) {
	w, ok := nc.(shard.PlainConn)
	if ok && p.canUseShards(s.FastCGI) && s.hooksAllowShards() {
		if h, ok := nc.(headerConn); ok {
			s.startAfterHeader(p, h)
			return
		}
		if s.adopt(p, w) {
			return
		}
	}
	s.startOnGoroutine(p, nc)
}

func (s *Server) startOnGoroutine(p *serveConfig, nc net.Conn) {
	if p.tls != nil {
		nc = tls.Server(nc, p.tls)
	}
	s.startConn(p, nc)
}

// adopt puts a connection on a shard. It reports false if it cannot.
func (s *Server) adopt(p *serveConfig, w shard.PlainConn) bool {
	g, err := s.ensureGroup()
	if err != nil {
		return false
	}
	return g.AdoptWrapped(&p.shards, w)
}

// headerWait is a connection whose header is awaited, or that is about to be served. The server's
// mutex guards it.
type headerWait struct {
	conn   headerConn
	since  time.Time
	isOver bool // the header was read, and only the goroutine that has read it uses conn
}

// startAfterHeader serves a connection once its header was read. Meanwhile the server counts as
// accepting.
func (s *Server) startAfterHeader(p *serveConfig, w headerConn) {
	h := &headerWait{conn: w, since: time.Now()}
	s.mu.Lock()
	s.headers[h] = struct{}{}
	s.state.Accepting.Add(1)
	s.mu.Unlock()
	if s.state.Aborted.Load() { // Close may have missed it
		_ = w.Close()
	}
	go func() {
		defer s.endHeader(h)
		err := w.ReadHeader(time.Now().Add(p.exchanges.HeadTimeout))
		s.endHeaderWait(h)
		switch {
		case err != nil:
			s.state.AcceptedConns.Add(1)
			_ = w.Close()
		case !s.adopt(p, w):
			s.startOnGoroutine(p, w)
		}
	}()
}

// endHeaderWait is called before the connection beneath is replaced. A call of Close meanwhile
// would be a data race. It is not needed either: a connection that is then served finds that the
// server was closed.
func (s *Server) endHeaderWait(h *headerWait) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h.isOver = true
}

func (s *Server) endHeader(h *headerWait) {
	s.mu.Lock()
	delete(s.headers, h)
	s.mu.Unlock()
	s.endAccepting()
}

// closeHeaders closes the connections that have waited for their headers for a time.
func (s *Server) closeHeaders(longer time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for h := range s.headers {
		if !h.isOver && time.Since(h.since) >= longer {
			_ = h.conn.Close()
		}
	}
}

// closeNewHeaders is closeHeaders for a server that waits for its connections.
func (s *Server) closeNewHeaders() { s.closeHeaders(exchange.NewGrace) }
