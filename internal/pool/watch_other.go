//go:build !linux

package pool

import "time"

// watch is nothing on this system: all connections that rest have a goroutine.
type watch[K comparable, T any] struct{}

func (p *Pool[K, T]) watchSocket(*Conn[K, T]) bool { return false }

func (p *Pool[K, T]) unwatch(*Conn[K, T]) {}

func (p *Pool[K, T]) lingers(time.Time) (at time.Time, ok bool) { return time.Time{}, false }

func (p *Pool[K, T]) stopWatching() {}
