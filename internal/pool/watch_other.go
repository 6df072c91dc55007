//go:build !linux

package pool

// socketWatcher does nothing on this system: a goroutine watches each connection.
type socketWatcher[K comparable, T any] struct{}

func (p *Pool[K, T]) watchSocket(*Conn[K, T]) bool { return false }

func (p *Pool[K, T]) unwatch(*Conn[K, T]) {}

func (p *Pool[K, T]) closeEmptyWatcher(monotime) (at monotime, ok bool) { return 0, false }

func (p *Pool[K, T]) stopWatching() {}
