//go:build !linux

package client

// socketWatcher does nothing on this system: a goroutine watches each connection.
type socketWatcher struct{}

func (p *pool) watchSocket(*conn) bool { return false }

func (p *pool) unwatch(*conn) {}

func (p *pool) closeEmptyWatcher(monotime) (at monotime, ok bool) { return 0, false }

func (p *pool) stopWatching() {}
