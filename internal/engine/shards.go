package engine

import "github.com/tarehq/tare/internal/engine/shard"

// shardAcceptor returns a function that accepts a connection of l for the shards. It returns nil if
// l's connections must take the goroutine path.
func (s *Server) shardAcceptor(p *serveConfig, l *onceCloseListener) func() error {
	if !shard.Supports(l.Listener) || !s.canUseShards(p) {
		return nil
	}
	g, err := s.ensureGroup()
	if err != nil {
		s.logf("http: no shards: %v; serving with a goroutine for each connection", err)
		return nil
	}
	return g.Accept(&p.shards, l.closed)
}

// ensureGroup returns the server's shards and starts them if necessary.
func (s *Server) ensureGroup() (*shard.Group, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shards != nil {
		return s.shards, nil
	}
	g, err := shard.NewGroup(&s.state, s.stopIfUnused)
	if err == nil {
		s.shards = g
	}
	return g, err
}

// group returns the shards, or nil if there are none.
func (s *Server) group() *shard.Group {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.shards
}
