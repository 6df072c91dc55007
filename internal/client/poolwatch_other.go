//go:build !linux

package client

import "time"

// socketWatcher does nothing on this system: a goroutine watches each connection.
type socketWatcher struct{}

func (p *pool) watchSocket(*conn) bool { return false }

func (p *pool) unwatch(*conn) {}

func (p *pool) closeEmptyWatcher(time.Time) (at time.Time, ok bool) { return at, false }

func (p *pool) stopWatching() {}
