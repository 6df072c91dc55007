package shard

import (
	"iter"
	"sync/atomic"
)

// connTable finds connections by descriptor.
type connTable struct {
	pages [tablePages]atomic.Pointer[tablePage]
}

const (
	tablePages = 1 << 12
	pageConns  = 1 << 10
)

type tablePage [pageConns]atomic.Pointer[shardConn]

// put stores k. It reports false if the table has no place for the descriptor.
func (t *connTable) put(fd int, k *shardConn) bool {
	if fd >= tablePages*pageConns {
		return false
	}
	slot := &t.pages[fd/pageConns]
	for slot.Load() == nil {
		slot.CompareAndSwap(nil, new(tablePage))
	}
	slot.Load()[fd%pageConns].Store(k)
	return true
}

func (t *connTable) at(fd int) *shardConn {
	if p := t.pages[fd/pageConns].Load(); p != nil {
		return p[fd%pageConns].Load()
	}
	return nil
}

func (t *connTable) remove(fd int, k *shardConn) {
	if fd >= tablePages*pageConns {
		return // put has rejected it
	}
	if p := t.pages[fd/pageConns].Load(); p != nil {
		p[fd%pageConns].CompareAndSwap(k, nil)
	}
}

func (t *connTable) each(f func(*shardConn)) {
	for _, k := range t.from(0) {
		f(k)
	}
}

// from iterates over all connections and their descriptors, beginning with a descriptor.
func (t *connTable) from(first int) iter.Seq2[int, *shardConn] {
	const all = tablePages * pageConns
	return func(yield func(int, *shardConn) bool) {
		for n := 0; n < all; n++ {
			fd := (first + n) % all
			p := t.pages[fd/pageConns].Load()
			if p == nil {
				n += pageConns - fd%pageConns - 1
				continue
			}
			if k := p[fd%pageConns].Load(); k != nil && !yield(fd, k) {
				return
			}
		}
	}
}
