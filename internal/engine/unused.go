package engine

// A server whose listeners have been closed, though neither Shutdown nor Close was called, serves the
// connections that are open until they end, as net/http does. What it has of goroutines and
// descriptors beside ends with the last of them, and a later Serve makes it anew.

// IsUnused reports whether no Serve runs, and no connection is open.
func (s *Server) IsUnused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unused()
}

// unused is IsUnused for a caller that holds the mutex.
func (s *Server) unused() bool {
	return len(s.listeners) == 0 && s.conns.n == 0 && s.http2.open.Load() == 0 && s.shards.open() == 0
}

// endIfUnused ends what serves connections if there are none and there will be none. Shutdown and
// Close have their own way of doing so.
func (s *Server) endIfUnused() {
	s.mu.Lock()
	if s.closing.Load() || !s.unused() {
		s.mu.Unlock()
		return
	}
	g := s.shards
	s.shards = nil
	s.http2.rest() // under the mutex: the inner server must not end for a connection that comes now
	s.mu.Unlock()
	g.stop()
	if s.Unused != nil {
		s.Unused()
	}
}
