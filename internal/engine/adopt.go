package engine

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/tarehq/tare/internal/connection"
)

// startSocket serves the socket beneath a connection, once that has returned it.
func (s *Server) startSocket(p *serveConfig, above connection.AboveSocket) {
	s.mu.Lock()
	s.awaited[above] = time.Now()
	s.mu.Unlock()
	if s.state.Aborted.Load() { // Close may have missed it
		_ = above.Close()
	}
	go func() {
		defer s.endAwaited(above)
		nc, ctx, err := above.Socket(p.exchanges.BaseContext, time.Now().Add(p.exchanges.HeadTimeout))
		s.mu.Lock()
		s.awaited[above] = time.Time{}
		s.mu.Unlock()
		switch {
		case err != nil:
			s.state.AcceptedConns.Add(1)
			_ = above.Close()
		case !s.adopt(p, nc, ctx):
			s.startOnGoroutine(p, nc, ctx)
		}
	}()
}

// adopt puts a connection on a shard. It reports false if it cannot.
func (s *Server) adopt(p *serveConfig, nc net.Conn, ctx context.Context) bool {
	if !s.canUseShards(p) {
		return false
	}
	g, err := s.ensureGroup()
	return err == nil && g.Adopt(&p.shards, nc, ctx)
}

func (s *Server) startOnGoroutine(p *serveConfig, nc net.Conn, ctx context.Context) {
	s.state.AcceptedConns.Add(1)
	if p.exchanges.TLS != nil {
		nc = tls.Server(nc, p.exchanges.TLS)
	}
	s.startConn(p, ctx, nc)
}

func (s *Server) endAwaited(above connection.AboveSocket) {
	s.mu.Lock()
	delete(s.awaited, above)
	s.mu.Unlock()
	s.endAccepting()
}

// closeAwaited closes the connections whose sockets have been awaited for a time.
func (s *Server) closeAwaited(longer time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for above, since := range s.awaited {
		if !since.IsZero() && time.Since(since) >= longer {
			_ = above.Close()
		}
	}
}
