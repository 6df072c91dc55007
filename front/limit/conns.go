package limit

// Conns counts what is in work at a time, by key. It is safe for use by several at once. What it remembers is bounded by
// Config.Bytes: if that is used up, keys that are not known are refused.
type Conns struct{ table[int] }

// NewConns makes a zone for limits of what is in work at a time.
func NewConns(c Config) *Conns {
	z := &Conns{}
	z.init(c)
	return z
}

// Enter counts one in, unless there are most already, or there is no room for the key. Who was counted in must Leave.
func (z *Conns) Enter(key string, most int) bool {
	s := z.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[key]
	if e == nil {
		if e = s.add(key, false); e == nil {
			return false
		}
	}
	if e.value >= most {
		return false
	}
	e.value++
	return true
}

// Leave counts one out.
func (z *Conns) Leave(key string) {
	s := z.shard(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.entries[key]
	if e.value--; e.value == 0 {
		s.remove(e)
	}
}
