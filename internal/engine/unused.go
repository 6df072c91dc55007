package engine

// A server whose listeners were closed without Shutdown or Close serves its open connections until
// they end, as net/http does. Its other goroutines and descriptors end with the last connection. A
// later Serve creates them again.

// IsUnused reports whether no Serve runs, and no connection is open.
func (s *Server) IsUnused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isUnused()
}

// isUnused is IsUnused for a caller that holds the mutex.
func (s *Server) isUnused() bool {
	return len(s.listeners) == 0 && len(s.awaited) == 0 && len(s.conns) == 0 && s.shards.Open() == 0
}

// stopIfUnused stops the shards if there are no connections and no listeners.
// Shutdown and Close stop them themselves.
func (s *Server) stopIfUnused() {
	s.mu.Lock()
	if s.state.Closing.Load() || !s.isUnused() {
		s.mu.Unlock()
		return
	}
	g := s.shards
	s.shards = nil
	s.mu.Unlock()
	g.Stop()
	if s.Unused != nil {
		s.Unused()
	}
}
