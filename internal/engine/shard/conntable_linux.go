package shard

import "sync/atomic"

// connTable finds connections by descriptor. The kernel reuses descriptors, so that a loop may look
// up one that belongs to another connection by now. That connection is then checked needlessly.
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
	for i := range t.pages {
		p := t.pages[i].Load()
		if p == nil {
			continue
		}
		for j := range p {
			if k := p[j].Load(); k != nil {
				f(k)
			}
		}
	}
}
