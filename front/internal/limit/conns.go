package limit

import "github.com/tarehq/tare/front/conf"

// Conns counts requests in progress, by key. It is safe for concurrent use. Config.Bytes limits its
// memory: if that is used up, unknown keys are rejected.
type Conns struct{ table[int] }

// NewConns makes a zone for limits of requests in progress.
func NewConns(c conf.Zone) *Conns {
	z := &Conns{}
	z.init(c)
	return z
}

// Enter counts a request, unless most requests are already in progress, or there is no memory for
// the key. If it returns true, Leave must follow.
func (z *Conns) Enter(key string, most int) bool {
	s := z.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.entries.Get(key)
	if n >= most {
		return false
	}
	if !ok {
		return s.add(key, 1, false)
	}
	s.entries.Add(key, n+1)
	return true
}

// Leave ends a request that Enter counted.
func (z *Conns) Leave(key string) {
	s := z.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if n, _ := s.entries.Get(key); n > 1 {
		s.entries.Add(key, n-1)
	} else {
		s.entries.Remove(key)
	}
}
